/**
 * What the GPU job says about itself: one notice annotation with how many tests ran and how long they took.
 *
 * The rented machine has no Node, so the same line is made there by {@link EVIDENCE_SHELL}; both writers and the strict
 * reader live here, so that they cannot drift apart. The reader decides whether a check may become green: whatever it
 * cannot read exactly is absent evidence, and absent is not green.
 */
import * as z from "zod";
import { err, ok, unreachable, type Result } from "../result.ts";
import { parseJUnit } from "./junit.ts";

/** Title of the annotation. The gate looks for exactly one with it. */
export const EVIDENCE_TITLE = "gpu-gate-evidence";

export interface Evidence {
  /** Tests that ran and passed, 1 or more. */
  readonly tests: number;
  /** Time the test runs took together, whole milliseconds. */
  readonly durationMs: number;
}

export type EvidenceError =
  | { readonly reason: "absent" }
  | { readonly reason: "ambiguous"; readonly count: number }
  | { readonly reason: "malformed"; readonly problem: string }
  | { readonly reason: "not-all-passed"; readonly ran: number; readonly passed: number }
  | { readonly reason: "no-tests" };

/** The part of GitHub's check-run annotation that carries evidence (`GET /check-runs/{id}/annotations`). */
export interface Annotation {
  readonly title: string | null;
  readonly message: string | null;
  readonly annotation_level: string | null;
}

// A day is longer than any job may last; a larger number is a wrong unit, not a long run.
const DURATION_MAX_MS = 86_400_000;

const evidenceSchema = z.strictObject({
  tests: z.int().min(1),
  durationMs: z.int().min(0).max(DURATION_MAX_MS),
});

/** Checks numbers on their way in, so that a writer cannot print what the reader would refuse. */
export function makeEvidence(tests: number, durationMs: number): Result<Evidence, EvidenceError> {
  const parsed = evidenceSchema.safeParse({ tests, durationMs });
  if (parsed.success) return ok(parsed.data);
  if (tests === 0) return err({ reason: "no-tests" });
  return err({ reason: "malformed", problem: parsed.error.issues[0]?.message ?? "the numbers are out of range" });
}

/** The workflow command that becomes the annotation, without a line break. */
export function evidenceNotice(evidence: Evidence): string {
  return `::notice title=${EVIDENCE_TITLE}::{"tests":${evidence.tests},"durationMs":${evidence.durationMs}}`;
}

/** Finds and reads the evidence among a job's annotations. Two of them are as good as none: nobody knows whose. */
export function readEvidence(annotations: readonly Annotation[]): Result<Evidence, EvidenceError> {
  const ours = annotations.filter((one) => one.title === EVIDENCE_TITLE);
  const [only] = ours;
  if (only === undefined) return err({ reason: "absent" });
  if (ours.length > 1) return err({ reason: "ambiguous", count: ours.length });
  if (only.annotation_level !== "notice")
    return err({ reason: "malformed", problem: `its level is ${only.annotation_level ?? "missing"}, not notice` });
  return parseEvidence(only.message ?? "");
}

/** Strict: exactly the form that {@link evidenceNotice} writes, no unknown key, no leading zero, no exponent. */
export function parseEvidence(message: string): Result<Evidence, EvidenceError> {
  const match = /^\{"tests":(0|[1-9]\d{0,8}),"durationMs":(0|[1-9]\d{0,8})\}$/.exec(message);
  if (match === null) return err({ reason: "malformed", problem: "the message is not in the form the GPU job writes" });
  return makeEvidence(Number(match[1]), Number(match[2]));
}

/** nextest's closing line, e.g. `Summary [   3.214s] 12 tests run: 12 passed (1 slow), 4 skipped`. */
const SUMMARY = /^ *Summary \[ *(\d+)\.(\d{3})s\] (\S+) tests? run: (\d+) passed/u;

// Colours, which nextest writes when CARGO_TERM_COLOR=always.
// oxlint-disable-next-line no-control-regex
const COLOUR = /\u001B\[[\d;]*m/gu;

/**
 * Adds up the summaries of all nextest runs in a log. A run that was cut short (`5/12 tests run`) or had a test that
 * did not pass gives no evidence.
 */
export function evidenceFromNextest(log: string): Result<Evidence, EvidenceError> {
  let tests = 0;
  let durationMs = 0;
  let runs = 0;
  for (const line of log.split("\n")) {
    const match = SUMMARY.exec(line.replaceAll(COLOUR, ""));
    if (match === null) continue;
    const [, seconds = "", thousandths = "", ran = "", passed = ""] = match;
    if (ran !== passed) return err({ reason: "not-all-passed", ran: Number.parseInt(ran, 10), passed: Number(passed) });
    if (Number(ran) === 0) return err({ reason: "no-tests" });
    tests += Number(ran);
    durationMs += Number(seconds) * 1000 + Number(thousandths);
    runs += 1;
  }
  return runs === 0 ? err({ reason: "absent" }) : makeEvidence(tests, durationMs);
}

/** Skipped cases do not count; a case that failed leaves no evidence; a file without times gives none either. */
export function evidenceFromJUnit(xml: string): Result<Evidence, EvidenceError> {
  const report = parseJUnit(xml);
  if (!report.ok) return err({ reason: "malformed", problem: report.error.problem });
  const ran = report.value.cases.filter((one) => one.outcome !== "skipped");
  const passed = ran.filter((one) => one.outcome === "passed").length;
  if (ran.length === 0) return err({ reason: "no-tests" });
  if (passed !== ran.length) return err({ reason: "not-all-passed", ran: ran.length, passed });
  if (report.value.seconds === null) return err({ reason: "malformed", problem: "the file states no times" });
  return makeEvidence(passed, Math.round(report.value.seconds * 1000));
}

/** One sentence for a person. */
export function explainEvidenceError(error: EvidenceError): string {
  switch (error.reason) {
    case "absent":
      return "there is no test summary, so nothing proves that a test ran";
    case "ambiguous":
      return `there are ${error.count} evidence annotations where one is expected, so none can be trusted`;
    case "malformed":
      return `the evidence cannot be read: ${error.problem}`;
    case "not-all-passed":
      return `${error.passed} tests passed of ${error.ran} that ran, and evidence is written for complete passes only`;
    case "no-tests":
      return "no test ran, and a run of no tests proves nothing";
    default:
      return unreachable(error, "evidence error");
  }
}

/**
 * The same as {@link evidenceFromNextest} and {@link evidenceNotice} in bash alone, for the rented machine. Reads the
 * log named by LOG, prints the annotation, exits 1 without one. To be placed in the trusted workflow as it is.
 */
export const EVIDENCE_SHELL = String.raw`
shopt -s extglob; tests=0; ms=0; runs=0
while IFS= read -r line || [ -n "$line" ]; do
  line=\${line//$'\e['*([0-9;])m/}
  [[ "$line" =~ ^\ *Summary\ \[\ *([0-9]+)\.([0-9]{3})s\]\ ([^[:space:]]+)\ tests?\ run:\ ([0-9]+)\ passed ]] || continue
  if [ "\${BASH_REMATCH[3]}" != "\${BASH_REMATCH[4]}" ] || [ "\${BASH_REMATCH[4]}" -eq 0 ]; then
    echo "::error::not every test that ran has passed, so there is no evidence"; exit 1
  fi
  tests=$((tests + 10#\${BASH_REMATCH[4]})); ms=$((ms + 10#\${BASH_REMATCH[1]}\${BASH_REMATCH[2]})); runs=$((runs + 1))
done < "$LOG"
if [ "$runs" -eq 0 ]; then echo "::error::there is no test summary, so nothing proves that a test ran"; exit 1; fi
echo "::notice title=gpu-gate-evidence::{\"tests\":$tests,\"durationMs\":$ms}"
`
  .trim()
  .replaceAll("\\${", "${");
