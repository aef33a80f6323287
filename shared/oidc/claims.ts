/**
 * The claims of a GitHub Actions OIDC token, as far as the control plane reads them (github-facts section 14).
 *
 * All ids and counts are strings in the token. `sub` is deliberately not here: its form changed in July 2026, an
 * organisation can customise it, and nothing may ever be permitted because of it.
 */
import * as z from "zod";

const numericText = z.string().regex(/^[1-9]\d{0,19}$/);
const seconds = z.int().nonnegative();
/** Names and refs: bounded, because they are compared and logged. */
const text = z.string().min(1).max(500);

export const claimsSchema = z.object({
  iss: text,
  /** GitHub sends one audience as text. A list is read, and refused where the audience is compared. */
  aud: z.union([text, z.array(text).max(20)]),
  exp: seconds,
  iat: seconds,
  nbf: seconds.optional(),
  jti: z.string().min(8).max(200),
  /** `owner/name` as GitHub named the repository when the token was made. */
  repository: text,
  repository_id: numericText,
  repository_owner_id: numericText,
  actor_id: numericText,
  event_name: text,
  ref: text,
  sha: z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/),
  /** The file that holds the job, and the file the run began with. Both as `owner/name/path@ref`. */
  job_workflow_ref: text,
  workflow_ref: text,
  run_id: numericText,
  run_attempt: z.string().regex(/^[1-9]\d{0,5}$/),
  runner_environment: text,
});

export type Claims = z.output<typeof claimsSchema>;

export type ClaimsReading =
  | { readonly ok: true; readonly claims: Claims }
  /** The first claim that is missing or not what GitHub sends; never its value. */
  | { readonly ok: false; readonly claim: string };

/** Reads a verified payload. */
export function readClaims(payload: unknown): ClaimsReading {
  const parsed = claimsSchema.safeParse(payload);
  if (parsed.success) return { ok: true, claims: parsed.data };
  return { ok: false, claim: parsed.error.issues[0]?.path.map(String).join(".") || "the payload" };
}
