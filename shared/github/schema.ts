/**
 * The zod pieces shared by everything that reads GitHub: ids, commits, instants, accounts.
 *
 * Tolerant of fields we do not know; strict about those we use, because an answer that cannot be read must be a failure
 * and not a guess.
 */

import * as z from "zod";
import type { Millis } from "../ports.ts";
import type { Actor } from "../lifecycle/signal.ts";

/** An id as a string of digits. In JSON it is a number, or digits when it was beyond 2^53 (exact-json.ts). */
export const githubId = z.union([z.int().nonnegative(), z.string().regex(/^\d{1,30}$/)]).transform(String);

/** An id that may be missing. GitHub says "none" with null, 0, "" or no key at all: all are null here. */
export const optionalId = z
  .union([githubId, z.literal("").transform(() => "0")])
  .nullish()
  .transform((id) => (id === null || id === undefined || /^0+$/.test(id) ? null : id));

/** A full commit, tree or blob name: SHA-1, or SHA-256 in repositories that use it. */
export const sha = z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/);

/** A string that may be null or absent. Empty stays empty. */
export const optionalText = z
  .string()
  .nullish()
  .transform((text) => text ?? null);

/**
 * Reads an ISO 8601 instant with a zone, any number of fractional digits. Null for everything else: a time without a
 * zone is no instant, and an unreadable time counts as old where it is used.
 */
export function parseInstant(value: unknown): Millis | null {
  if (typeof value !== "string") return null;
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/.test(value)) return null;
  const instant = Date.parse(value);
  return Number.isNaN(instant) ? null : instant;
}

/** An instant that never fails to parse: null when GitHub sent none or one that cannot be read. */
export const instant = z.unknown().optional().transform(parseInstant);

export const actor = z.object({ id: githubId, login: z.string().min(1) }).transform((user): Actor => ({
  id: user.id,
  login: user.login,
}));

/** The account that stands in for a deleted user. Its id is none, so that no permission can ever match it. */
export const GHOST: Actor = { id: "0", login: "ghost" };

export const repositoryRef = z
  .object({ id: githubId, name: z.string().min(1), owner: z.object({ login: z.string().min(1) }) })
  .transform((repository) => ({ id: repository.id, owner: repository.owner.login, name: repository.name }));

/**
 * The workflow file of a run, without the `@ref` GitHub may append. Greedy on purpose: a file that is itself called
 * `ci.yml@x.yml` must not pass for `ci.yml`.
 */
export function workflowPathOf(path: string): string {
  return /^(.*\.ya?ml)(?:@.*)?$/s.exec(path)?.[1] ?? path;
}

/** Where and why a value did not parse, without the value itself: it may be private. */
export function whereUnreadable(error: z.core.$ZodError): string {
  const issue = error.issues[0];
  if (issue === undefined) return "the body";
  const where = issue.path.map(String).join(".");
  return `${where === "" ? "the body" : where} (${issue.code})`;
}
