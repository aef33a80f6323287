/** Writes `docs/reason-codes.md` from the one list of reason codes; `--check` only says whether the page is current. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { REASON_CLASSES } from "../shared/audit/reason-classes.ts";
import { REASONS, REASON_CODES } from "../shared/audit/reasons.ts";

const FILE = join(import.meta.dirname, "../docs/reason-codes.md");

export function reasonPage(): string {
  const lines = [
    "# Reason codes",
    "",
    "Every end and every refusal has one of these codes: in the check, the audit, the API and `gpu-gate explain`.",
    "This page is written by `scripts/reason-docs.ts` from `shared/audit/reasons.ts`; do not edit it by hand.",
  ];
  for (const [name, { title, intro }] of Object.entries(REASON_CLASSES)) {
    const codes = REASON_CODES.filter((code) => REASONS[code].class === name);
    lines.push("", `## ${title}`, "", intro, "", "| Code | What happened | What to do |", "| --- | --- | --- |");
    for (const code of codes) lines.push(`| \`${code}\` | ${REASONS[code].sentence} | ${REASONS[code].whatToDo} |`);
  }
  return `${lines.join("\n")}\n`;
}

if (import.meta.main) {
  const page = reasonPage();
  const current = await readFile(FILE, "utf8").catch(() => "");
  if (process.argv.includes("--check")) {
    if (current !== page) {
      process.stderr.write("docs/reason-codes.md is not current. Run: node scripts/reason-docs.ts\n");
      process.exitCode = 1;
    }
  } else if (current !== page) await writeFile(FILE, page);
}
