/** A classification in the form that a workflow's jobs read: names and values of step outputs. */
import { err, ok, type Result } from "../result.ts";
import type { Classification } from "./classify.ts";

/** Every sign that some reader takes for the end of a line. */
const LINE_BREAK = /[\r\n\v\f\u0085\u2028\u2029]/;

export interface OutputProblem {
  readonly reason: "line-break";
  readonly name: string;
}

/** `classification`, `run_<lane>` for every lane, `reason`; booleans in lower case. */
export function outputValues(result: Classification): [name: string, value: string][] {
  return [
    ["classification", result.classification],
    ...Object.entries(result.lanes).map(([lane, on]): [string, string] => [`run_${lane}`, String(on)]),
    ["reason", result.reasons.map(({ text }) => text).join("; ")],
  ];
}

/**
 * The text to append to `GITHUB_OUTPUT`. A value with a line break is refused: a file name may hold one, and the next
 * line of the file would then be read as an output of the attacker's choice (`run_gpu=false`).
 */
export function outputText(result: Classification): Result<string, OutputProblem> {
  const lines: string[] = [];
  for (const [name, value] of outputValues(result)) {
    if (LINE_BREAK.test(value)) return err({ reason: "line-break", name });
    lines.push(`${name}=${value}\n`);
  }
  return ok(lines.join(""));
}
