/**
 * Why a token was refused: precise for the log, one and the same sentence for the caller.
 *
 * A caller that learns which check stopped it can forge its way along the list; an operator who does not learn it cannot
 * help a maintainer. So every arm carries its evidence, and `publicAnswer` gives none of it away.
 */
import { safeText } from "../http.ts";
import { unreachable } from "../result.ts";

export type Refusal =
  // Who is speaking is not established: 401.
  | { readonly reason: "no-token" }
  | { readonly reason: "malformed"; readonly what: string }
  | { readonly reason: "algorithm"; readonly got: string }
  | { readonly reason: "unknown-key"; readonly kid: string }
  | { readonly reason: "signature" }
  | { readonly reason: "issuer"; readonly got: string; readonly expected: string }
  | { readonly reason: "audience"; readonly got: string; readonly expected: string }
  | { readonly reason: "expired"; readonly secondsAgo: number }
  | { readonly reason: "not-yet-valid"; readonly claim: "nbf" | "iat"; readonly secondsAhead: number }
  | { readonly reason: "too-old"; readonly ageSeconds: number; readonly maxSeconds: number }
  | { readonly reason: "replayed"; readonly jti: string }
  // Who is speaking is known, and may not ask for this: 403.
  | { readonly reason: "repository-not-served"; readonly repositoryId: string }
  | { readonly reason: "repository"; readonly got: string; readonly expected: string }
  | { readonly reason: "owner"; readonly got: string; readonly expected: string }
  | {
      readonly reason: "workflow";
      readonly claim: "job_workflow_ref" | "workflow_ref";
      readonly fault: "repository" | "file" | "ref" | "unreadable";
      readonly got: string;
      readonly expected: string;
    }
  /** The configuration names prepare or execute as the workflow that asks: their tokens never open requests. */
  | { readonly reason: "workflow-never-opens"; readonly got: string }
  | { readonly reason: "event"; readonly got: string; readonly expected: string }
  | { readonly reason: "ref"; readonly got: string; readonly expected: string }
  | { readonly reason: "runner-environment"; readonly got: string }
  | { readonly reason: "run-attempt"; readonly got: string }
  | { readonly reason: "run-unknown"; readonly runId: string }
  | { readonly reason: "run-differs"; readonly what: RunFact; readonly got: string; readonly expected: string }
  | { readonly reason: "run-finished"; readonly runId: string }
  /** Not the same person throughout: a re-run, or a token, that would spend in somebody else's name. */
  | {
      readonly reason: "actor";
      readonly token: string;
      readonly actor: string;
      readonly triggeringActor: string;
    }
  | { readonly reason: "fork"; readonly headRepositoryId: string };

export type RefusalReason = Refusal["reason"];

/** What GitHub's record of a run is compared with the token in. */
export type RunFact = "id" | "repository" | "event" | "attempt" | "workflow" | "branch" | "sha";

/** The only text a refused caller ever sees. */
export const PUBLIC_TEXT = "This token is not accepted here.";

export function publicStatus(refusal: Refusal): 401 | 403 {
  switch (refusal.reason) {
    case "no-token":
    case "malformed":
    case "algorithm":
    case "unknown-key":
    case "signature":
    case "issuer":
    case "audience":
    case "expired":
    case "not-yet-valid":
    case "too-old":
    case "replayed":
      return 401;
    case "repository-not-served":
    case "repository":
    case "owner":
    case "workflow":
    case "workflow-never-opens":
    case "event":
    case "ref":
    case "runner-environment":
    case "run-attempt":
    case "run-unknown":
    case "run-differs":
    case "run-finished":
    case "actor":
    case "fork":
      return 403;
    default:
      return unreachable(refusal, "token refusal");
  }
}

/** The evidence as flat fields of a log line: claims only, each bounded; no part of the token itself. */
export function refusalFields(refusal: Refusal): Readonly<Record<string, string | number>> {
  return Object.fromEntries(
    Object.entries(refusal).map(([name, value]) => [name, typeof value === "number" ? value : safeText(String(value))]),
  );
}
