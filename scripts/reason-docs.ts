/** Writes `docs/reason-codes.md` from the one list of reason codes; `--check` only says whether the page is current. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { REASONS, REASON_CODES, type ReasonClass } from "../shared/audit/reasons.ts";

const FILE = join(import.meta.dirname, "../docs/reason-codes.md");

/** Each class with the heading and the sentence that introduce it, in the order of the page. */
const CLASSES: Readonly<Record<ReasonClass, { readonly title: string; readonly intro: string }>> = {
  passed: { title: "Passed", intro: "The check is green: the tests ran." },
  reused: { title: "Reused", intro: "The check is green without a new run." },
  "not-required": { title: "Not required", intro: "The check is green because the trusted policy asks for no GPU." },
  failed: { title: "Failed", intro: "The check is red, and the change is what made it red." },
  infrastructure: {
    title: "Infrastructure",
    intro: "The check is red, but nothing is said about the change.",
  },
  deadline: { title: "Out of time", intro: "The check concludes `timed_out`." },
  refused: {
    title: "Refused",
    intro: "The check concludes `action_required`: a person has to change something first.",
  },
  "over-budget": { title: "Over budget", intro: "The check concludes `action_required`." },
  "awaiting-approval": { title: "Awaiting approval", intro: "The check concludes `action_required`." },
  superseded: { title: "Superseded", intro: "The check concludes `cancelled`." },
  closed: { title: "Closed", intro: "The check concludes `cancelled`." },
  cancelled: { title: "Cancelled", intro: "The check concludes `cancelled`." },
  attempt: {
    title: "Attempts",
    intro: "Why one attempt ended while its request went on; seen in the table of attempts.",
  },
  reap: { title: "Reaper", intro: "Why the reaper deleted a pod; seen in the audit and the ledger." },
  lane: { title: "Lanes", intro: "What the probe of a lane on your own machines found." },
  note: {
    title: "Notes",
    intro: "Only the audit shows these: a signal that changed nothing, or something found on the way.",
  },
};

export function reasonPage(): string {
  const lines = [
    "# Reason codes",
    "",
    "Every end and every refusal has one of these codes: in the check, the audit, the API and `gpu-gate explain`.",
    "This page is written by `scripts/reason-docs.ts` from `shared/audit/reasons.ts`; do not edit it by hand.",
  ];
  for (const [name, { title, intro }] of Object.entries(CLASSES)) {
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
