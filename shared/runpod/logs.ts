/**
 * The log lines of a pod, out of RunPod's event stream.
 *
 * What a pod prints is untrusted: it may be anything, of any length, and it may quote a secret. Lines are shortened,
 * stripped of control characters and of the secrets the caller names, and only the last ones are kept.
 */
import * as z from "zod";
import { parseJson, plainText } from "./provider-text.ts";

/** How a start script begins the line that says why it ends. */
const REFUSED = /^\[gpu-gate\] REFUSED \(/;
/** The script's other lines only count what the gate knows. */
const OURS = /^\[gpu-gate\] /;
const MAX_SAID = 200;

export interface PodLogLine {
  /** `container` (what the start script printed) or `system` (what RunPod did, for example pulling the image). */
  readonly source: string;
  readonly line: string;
  /** RunPod's text for the time. */
  readonly at: string;
}

export interface PodLogs {
  readonly lines: readonly PodLogLine[];
  /** Events that did not read. */
  readonly unreadable: number;
}

const MAX_LINES = 100;

const logEvent = z.object({ source: z.string().max(40), line: z.string(), ts: z.string().max(60).catch("") });

/** Reads server-sent events; an event cut off in the middle is left out. */
export function readLogStream(text: string, secrets: readonly string[]): PodLogs {
  const lines: PodLogLine[] = [];
  let unreadable = 0;
  // An event ends with an empty line; without one the rest is a piece of an event.
  const events = text.replaceAll(/\r\n?/g, "\n").split("\n\n").slice(0, -1);
  for (const event of events) {
    const data = event
      .split("\n")
      .filter((line) => line.startsWith("data:"))
      .map((line) => line.slice("data:".length).replace(/^ /, ""))
      .join("\n");
    if (data === "") continue;
    const parsed = logEvent.safeParse(parseJson(data));
    if (parsed.success) {
      const { source, line, ts } = parsed.data;
      lines.push({ source: plainText(source), line: plainText(line, secrets), at: plainText(ts) });
    } else unreadable += 1;
  }
  return { lines: lines.slice(-MAX_LINES), unreadable };
}

/**
 * The one line that says most about a pod's end: the start script's own refusal, else what `tells` picks, else the last
 * line the container wrote, the runner's before ours, else RunPod's. Only letters, digits and plain punctuation are left of it: it ends up in a check.
 */
export function lastWords(logs: PodLogs, tells: (line: string) => boolean): string | null {
  const container = logs.lines.filter((entry) => entry.source === "container").map((entry) => entry.line);
  const others = logs.lines.filter((entry) => entry.source !== "container").map((entry) => entry.line);
  const line =
    container.findLast((text) => REFUSED.test(text)) ??
    container.findLast(tells) ??
    container.findLast((text) => text.trim() !== "" && !OURS.test(text)) ??
    container.findLast((text) => text.trim() !== "") ??
    others.findLast((text) => text.trim() !== "");
  if (line === undefined) return null;
  const plain = line
    .replaceAll(/[^A-Za-z0-9 .,:;()'/_+=%-]/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim()
    .slice(0, MAX_SAID);
  return plain === "" ? null : plain;
}
