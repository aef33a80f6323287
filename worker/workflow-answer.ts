/** What the workflow API answers, as data: the routes turn it into a response, tests read it as it is. */
import { describeFailure, type GitHubFailure } from "../shared/github/failure.ts";
import type { Millis } from "../shared/ports.ts";

export type WorkflowStatus = 200 | 202 | 400 | 401 | 403 | 404 | 409 | 413 | 422 | 503;

export interface WorkflowAnswer {
  readonly status: WorkflowStatus;
  readonly body: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds?: number;
}

/** Why an answer is not the one that was asked for: a code for programs, a sentence for people. */
export function problem(status: WorkflowStatus, error: string, message: string): WorkflowAnswer {
  return { status, body: { error, message } };
}

/** Something that others run does not answer. Nothing was decided; the caller may ask again with a new token. */
export function unavailable(message: string, retryAfterSeconds = 30): WorkflowAnswer {
  return { ...problem(503, "unavailable", `${message} Ask again with a new token.`), retryAfterSeconds };
}

export function githubUnavailable(failure: GitHubFailure, now: Millis): WorkflowAnswer {
  const wait = failure.reason === "rate-limited" ? Math.max(1, Math.ceil((failure.retryAtMs - now) / 1000)) : 30;
  return unavailable(`GitHub could not be asked: ${describeFailure(failure)}`, wait);
}
