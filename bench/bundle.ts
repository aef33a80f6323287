/** The Worker's bundle as a deployment would send it: size, and start-up as wrangler measures it. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { buildBundle } from "../local/world/world.ts";
import type { BenchRow } from "./row.ts";

const ROOT = join(import.meta.dirname, "..");

export async function run(): Promise<readonly BenchRow[]> {
  const dir = await buildBundle(join(ROOT, "dist"));
  const code = readFileSync(join(dir, "index.js"));
  const rows: BenchRow[] = [
    { name: "bundle, minified", value: code.length / 1024, unit: "KiB" },
    { name: "bundle, gzipped", value: gzipSync(code).length / 1024, unit: "KiB", note: "target 300 or less" },
  ];
  const profileDir = mkdtempSync(join(tmpdir(), "gpu-gate-startup-"));
  const profile = join(profileDir, "startup.cpuprofile");
  const wrangler = join(ROOT, "node_modules", "wrangler", "bin", "wrangler.js");
  try {
    await promisify(execFile)(process.execPath, [wrangler, "check", "startup", "--outfile", profile], {
      cwd: ROOT,
      env: { ...process.env, WRANGLER_SEND_METRICS: "false", WRANGLER_SEND_ERROR_REPORTS: "false", CI: "1" },
    });
    rows.push({ name: "start-up, active", value: activeMs(profile), unit: "ms", note: "target 60 or less" });
  } finally {
    rmSync(profileDir, { recursive: true, force: true });
  }
  return rows;
}

/** Time of the samples that are not idle, from the CPU profile `wrangler check startup` writes. */
function activeMs(file: string): number {
  const profile = JSON.parse(readFileSync(file, "utf8")) as {
    readonly nodes: readonly { readonly id: number; readonly callFrame: { readonly functionName: string } }[];
    readonly samples: readonly number[];
    readonly timeDeltas: readonly number[];
  };
  const idle = new Set(
    profile.nodes
      .filter((node) => ["(idle)", "(program)"].includes(node.callFrame.functionName))
      .map((node) => node.id),
  );
  const micros = profile.samples.reduce(
    (sum, id, index) => sum + (idle.has(id) ? 0 : (profile.timeDeltas[index] ?? 0)),
    0,
  );
  return micros / 1000;
}
