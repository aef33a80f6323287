/**
 * Writes `pod/start-script.generated.ts` from `pod/start.sh` and `pod/smoke.py`.
 *
 * Run it after every change of either file: `node scripts/embed-pod-script.ts`.
 */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const podFolder = join(import.meta.dirname, "..", "pod");
const MARKER = "@@pod/smoke.py@@\n";

/** The whole start script: `start.sh` with the smoke program in the place of its marker line. */
export function assembleStartScript(): string {
  const start = readFileSync(join(podFolder, "start.sh"), "utf8");
  const smoke = readFileSync(join(podFolder, "smoke.py"), "utf8");
  const parts = start.split(MARKER);
  if (parts.length !== 2) throw new Error(`pod/start.sh must hold the line ${MARKER.trim()} exactly once`);
  return parts.join(smoke);
}

/** A string literal in the quotes that need fewer escapes, which is the formatter's choice as well. */
function literal(text: string): string {
  const escaped = JSON.stringify(text);
  const doubles = text.split('"').length;
  const singles = text.split("'").length;
  if (doubles <= singles) return escaped;
  return `'${escaped.slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

/** The text of the generated module. */
export function generatedModule(): string {
  const script = assembleStartScript();
  const sha256 = createHash("sha256").update(script).digest("hex");
  return [
    "// Generated from start.sh and smoke.py by scripts/embed-pod-script.ts. Do not edit.",
    `export const startScriptSha256 = ${JSON.stringify(sha256)};`,
    "",
    `export const startScript =\n  ${literal(script)};`,
    "",
  ].join("\n");
}

export const generatedPath: string = join(podFolder, "start-script.generated.ts");

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(generatedPath, generatedModule());
  console.log(`wrote ${generatedPath}`);
}
