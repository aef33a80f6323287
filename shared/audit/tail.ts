/**
 * The live audit: from the log stream of the Worker (`wrangler tail --format json`) to lines a person can read.
 *
 * The stream is JSON objects one after the other, on one line or spread over many, cut anywhere. Of each event only the
 * log messages that are audit entries, and exceptions, are shown; everything else is other people's business.
 */
import * as z from "zod";
import { auditEntrySchema, type AuditEntry } from "./chain.ts";
import { REASONS, isReasonCode } from "./reasons.ts";

/** A single event is far smaller; what grows beyond this is not the stream we read. */
const MAX_PENDING_CHARS = 4_000_000;

const tailEvent = z.looseObject({
  logs: z.array(z.looseObject({ message: z.unknown() })).catch([]),
  exceptions: z
    .array(z.looseObject({ name: z.string().catch("Error"), message: z.unknown(), timestamp: z.number().nullish() }))
    .catch([]),
  outcome: z.string().catch("ok"),
});

const auditLine = z.object({ audit: z.looseObject({ repository: z.string() }) });

/** Splits a text stream into whole JSON values. Text between values is dropped (a banner, a blank line). */
export class JsonStream {
  #pending = "";
  #scanned = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;

  /** Takes the next piece and gives the texts of the objects that it completes. */
  push(piece: string): readonly string[] {
    this.#pending += piece;
    const complete: string[] = [];
    while (this.#scanned < this.#pending.length) {
      const char = this.#pending[this.#scanned];
      this.#scanned += 1;
      if (this.#depth === 0) {
        if (char !== "{") continue;
        this.#pending = this.#pending.slice(this.#scanned - 1);
        this.#scanned = 1;
        this.#depth = 1;
      } else if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (char === "\\") this.#escaped = true;
        else if (char === '"') this.#inString = false;
      } else if (char === '"') this.#inString = true;
      else if (char === "{") this.#depth += 1;
      else if (char === "}") {
        this.#depth -= 1;
        if (this.#depth > 0) continue;
        complete.push(this.#pending.slice(0, this.#scanned));
        this.#pending = this.#pending.slice(this.#scanned);
        this.#scanned = 0;
      }
    }
    if (this.#depth === 0 || this.#pending.length > MAX_PENDING_CHARS) this.#reset();
    return complete;
  }

  #reset(): void {
    this.#pending = "";
    this.#scanned = 0;
    this.#depth = 0;
    this.#inString = false;
    this.#escaped = false;
  }
}

/** The readable lines of one event; an event that is none gives nothing. */
export function tailLines(text: string): readonly string[] {
  const event = tailEvent.safeParse(parseJson(text));
  if (!event.success) return [];
  // A log line of the audit may also be given as it is, without the tail's wrapping.
  const bare = readAudit(text);
  if (bare !== null) return [bare];
  const lines: string[] = [];
  for (const { message } of event.data.logs) {
    for (const part of Array.isArray(message) ? (message as unknown[]) : [message]) {
      const line = typeof part === "string" ? readAudit(part) : null;
      if (line !== null) lines.push(line);
    }
  }
  for (const { name, message } of event.data.exceptions) {
    lines.push(`!! the Worker threw ${plain(name)}: ${plain(typeof message === "string" ? message : "")}`);
  }
  if (!["ok", "canceled"].includes(event.data.outcome) && event.data.exceptions.length === 0) {
    lines.push(`!! an invocation ended as ${plain(event.data.outcome)}`);
  }
  return lines;
}

/** `2026-11-30T11:22:33.000Z  repo 101 #17  request.conclude  head-moved  [facts]  The pull request's head moved on...` */
export function auditText(repository: string, entry: AuditEntry): string {
  const facts = Object.entries(entry.facts).map(([name, value]) => `${plain(name)}=${plain(String(value))}`);
  const parts = [
    new Date(entry.at).toISOString(),
    `repo ${plain(repository)} #${entry.seq}`,
    ...(entry.request === null ? [] : [plain(entry.request)]),
    plain(entry.act),
    ...(entry.reason === null ? [] : [plain(entry.reason)]),
    ...(facts.length === 0 ? [] : [`[${facts.join(" ")}]`]),
    ...(entry.reason !== null && isReasonCode(entry.reason) ? [REASONS[entry.reason].sentence] : []),
  ];
  return parts.join("  ");
}

function readAudit(text: string): string | null {
  const line = auditLine.safeParse(parseJson(text));
  if (!line.success) return null;
  const { repository, ...rest } = line.data.audit;
  const entry = auditEntrySchema.safeParse(rest);
  if (!entry.success || Math.abs(entry.data.at) > 8.64e15) return null;
  return auditText(repository, entry.data);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What comes out of a log goes to a terminal: no control characters, no line breaks. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ").slice(0, 500);
}
