/**
 * The audit's chain: each entry carries the hash of the one before it, so that an entry that was changed, removed or put
 * in later breaks every hash from there on.
 *
 * The hash is SHA-256 over canonical JSON (keys in code unit order, no blanks) of everything in the entry but the hash
 * itself. The first entry hangs on the chain's name (the repository id), so an entry of one repository is none of
 * another's. A chain cannot show by itself that its newest entries were cut off: compare its head with one kept elsewhere
 * (each entry is also a log line).
 *
 * Entries hold facts by name, ids and reason codes; no secret and no provider text may be put into `facts`.
 */
import * as z from "zod";
import type { Millis } from "../ports.ts";
import { err, ok, type Result } from "../result.ts";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

/** What was decided or done. `act` has the form `noun.verb`. */
export const auditBodySchema = z.object({
  /** Id of the request it is about; null for acts of the repository or the deployment. */
  request: z.string().nullable(),
  act: z.string().min(1),
  /** A code of `reasons.ts` where the act has one. Text here, so that entries of a newer version still verify. */
  reason: z.string().nullable(),
  facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
});

/** Strict: a field that nobody knows would not be covered by the hash. */
export const auditEntrySchema = z.strictObject({
  seq: z.number().int().positive(),
  at: z.number().int(),
  ...auditBodySchema.shape,
  prev: sha256,
  hash: sha256,
});

export type AuditBody = z.infer<typeof auditBodySchema>;
export type AuditEntry = z.infer<typeof auditEntrySchema>;

/** The end of a chain: what the next entry hangs on. */
export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

export type ChainProblem = "unreadable" | "sequence" | "previous-hash" | "hash";

export interface BadEntry {
  readonly reason: "bad-entry";
  /** Place in what was given, from 0. */
  readonly index: number;
  /** The entry's own number, where it can be read. */
  readonly seq: number | null;
  readonly problem: ChainProblem;
  readonly what: string;
}

export interface VerifiedChain {
  readonly entries: number;
  /** Null for an empty chain that starts nowhere. */
  readonly head: ChainHead | null;
}

/** The head of a chain without entries. */
export async function genesis(chainName: string): Promise<ChainHead> {
  return { seq: 0, hash: await digest(`gpu-gate audit ${chainName}`) };
}

/** Seals a body as the entry after `head`. The caller stores it before it seals the next one. */
export async function sealEntry(head: ChainHead, at: Millis, body: AuditBody): Promise<AuditEntry> {
  const { request, act, reason, facts } = body;
  const open = { seq: head.seq + 1, at, request, act, reason, facts, prev: head.hash };
  return { ...open, hash: await digest(canonicalJson(open)) };
}

/**
 * Walks entries in order and stops at the first bad one. With `after`, the first entry must hang on that head; without,
 * a part of a chain is taken as it comes, and only its inner links are proven.
 */
export async function verifyChain(
  entries: Iterable<unknown> | AsyncIterable<unknown>,
  after: ChainHead | null = null,
): Promise<Result<VerifiedChain, BadEntry>> {
  let head = after;
  let index = 0;
  for await (const raw of entries) {
    const parsed = auditEntrySchema.safeParse(raw);
    if (!parsed.success) {
      return err(bad(index, seqOf(raw), "unreadable", `it is not an audit entry: ${objection(parsed.error)}`));
    }
    const entry = parsed.data;
    if (head !== null && entry.seq !== head.seq + 1) {
      return err(bad(index, entry.seq, "sequence", `entry ${head.seq + 1} should be here, not ${entry.seq}`));
    }
    if (head !== null && entry.prev !== head.hash) {
      return err(bad(index, entry.seq, "previous-hash", "it does not hang on the entry before it"));
    }
    const { hash, ...open } = entry;
    if ((await digest(canonicalJson(open))) !== hash) {
      return err(bad(index, entry.seq, "hash", "its content is not what was sealed"));
    }
    head = { seq: entry.seq, hash };
    index += 1;
  }
  return ok({ entries: index, head });
}

/** The entry as the one JSON log line it also is; `gpu-gate tail` reads these. */
export function auditLogLine(chainName: string, entry: AuditEntry): string {
  return JSON.stringify({ audit: { repository: chainName, ...entry } });
}

/** JSON with keys in code unit order and no blanks. Takes what JSON can hold; anything else is the caller's bug. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const fields = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonicalJson(field)}`).join(",")}}`;
  }
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined || (typeof value === "number" && !Number.isFinite(value))) {
    throw new TypeError("an audit entry holds only what JSON can hold");
  }
  return text;
}

function bad(index: number, seq: number | null, problem: ChainProblem, what: string): BadEntry {
  return { reason: "bad-entry", index, seq, problem, what };
}

/** What no entry has, in a few words. A field's name is all that is told of the text: it may be anything. */
function objection(error: z.ZodError): string {
  const [issue] = error.issues;
  if (issue?.code === "unrecognized_keys") return "it has a field that no entry has";
  if (issue === undefined || issue.path.length === 0) return "it is no JSON object";
  return `its field '${String(issue.path[0])}' is missing or is not what it must be`;
}

function seqOf(raw: unknown): number | null {
  const parsed = z.looseObject({ seq: z.number() }).safeParse(raw);
  return parsed.success ? parsed.data.seq : null;
}

async function digest(text: string): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
