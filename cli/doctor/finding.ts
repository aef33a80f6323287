/** What the doctor says about one thing: fine, worth a look, or broken, and then what to do. */
import type { GitHubFailure } from "../../shared/github/failure.ts";
import { describeFailure } from "../../shared/github/failure.ts";

export interface Finding {
  readonly state: "ok" | "warning" | "problem";
  /** The thing looked at, in a few words. */
  readonly what: string;
  /** What was seen and, unless it is fine, what to do. */
  readonly say: string;
}

export const fine = (what: string, say: string): Finding => ({ state: "ok", what, say });
export const warning = (what: string, say: string): Finding => ({ state: "warning", what, say });
export const problem = (what: string, say: string): Finding => ({ state: "problem", what, say });

/** A question that was not answered is never fine, and never proof of a fault. */
export function unanswered(what: string, failure: GitHubFailure): Finding {
  return warning(what, `could not be told: ${describeFailure(failure)}`);
}
