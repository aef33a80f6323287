/**
 * Asks GitHub again for deliveries that nobody here answered: GitHub never does so by itself.
 *
 * The App's deliveries are read newest first down to where the last pass began. What counts is the event, not the attempt: a
 * guid with one good attempt is settled, any other is asked for again, later and later, until it is too old for GitHub. The
 * list is read without its filter for failures, which leaves out attempts without an answer; only `OK` is good. Gates
 * remember what they processed by guid, so that a delivery that did arrive is acted on once.
 */
import * as z from "zod";
import type { GitHubAppClient, HookDelivery } from "../shared/github/app-client.ts";
import { describeFailure } from "../shared/github/failure.ts";
import type { Clock, Millis } from "../shared/ports.ts";
import type { TurnsPort } from "./ports.ts";

export interface RedeliverPorts {
  readonly github: Pick<GitHubAppClient, "listHookDeliveries" | "redeliver">;
  readonly turns: TurnsPort;
  readonly everyMs: Millis;
}

export interface RedeliverStatus {
  /** `part`: the list is longer than one turn reads; the next tick goes on. */
  readonly kind: "not-due" | "no-list" | "part" | "swept";
  readonly read: number;
  readonly asked: number;
  /** Events that still wait for a good attempt. */
  readonly waiting: number;
  readonly problems: readonly string[];
}

export const REDELIVER = "redeliver";
/** GitHub keeps deliveries for redelivery this long. */
const KEPT_MS = 3 * 86_400_000;
/** Attempts are listed when they are over, which may be out of order; GitHub waits ten seconds for an answer. */
const OVERLAP_MS = 300_000;
/** Requests of one turn: a tick may make 50 on the smallest plan, and is not alone. */
const PAGES = 6;
const ASKS = 8;
/** Longest pause between two asks for one event. */
const PAUSE_MOST_MS = 6 * 3_600_000;
const REMEMBERED = 1_000;

const waitingSchema = z.object({
  /** The newest attempt: this one is asked for again. */
  id: z.string(),
  at: z.number(),
  asks: z.number(),
  nextAt: z.number(),
});

const memorySchema = z.object({
  /** Everything delivered before this has been looked at. */
  settledUntil: z.number(),
  /** A pass under way: where it goes on, when it began, and which events of its newer pages have a good attempt. */
  pass: z.object({ cursor: z.string(), begunAt: z.number(), good: z.array(z.string()) }).nullable(),
  waiting: z.record(z.string(), waitingSchema),
});

type Memory = z.infer<typeof memorySchema>;

const QUIET = { read: 0, asked: 0, waiting: 0, problems: [] };

export async function redeliver(ports: RedeliverPorts, clock: Clock): Promise<RedeliverStatus> {
  const turn = await ports.turns.take(REDELIVER, ports.everyMs);
  if (!turn.due) return { ...QUIET, kind: "not-due" };
  const now = clock.now();
  const memory = remembered(turn.memory, now);
  const problems: string[] = [];
  forgetOld(memory, now, problems);
  const seen = await readPages(memory, ports, now);
  problems.push(...seen.problems);
  const { asked, left } = await askAgain(memory, ports, clock, problems);
  // After an hour in which nobody listened there are more than one tick can ask for: the next one goes on, not the next turn.
  const more = seen.kind === "part" || left;
  await ports.turns.keep(REDELIVER, JSON.stringify(shortened(memory)), more);
  return { kind: seen.kind, read: seen.read, asked, waiting: Object.keys(memory.waiting).length, problems };
}

/** A memory that is lost or cannot be read costs reading the three days again. */
function remembered(text: string | null, now: Millis): Memory {
  const fresh: Memory = { settledUntil: now - KEPT_MS, pass: null, waiting: {} };
  if (text === null) return fresh;
  try {
    const parsed = memorySchema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : fresh;
  } catch {
    return fresh;
  }
}

function forgetOld(memory: Memory, now: Millis, problems: string[]): void {
  for (const [guid, one] of Object.entries(memory.waiting)) {
    if (now - one.at < KEPT_MS) continue;
    delete memory.waiting[guid];
    problems.push(`The delivery ${guid} was asked for ${one.asks} times in three days and never answered.`);
  }
}

async function readPages(
  memory: Memory,
  ports: RedeliverPorts,
  now: Millis,
): Promise<Pick<RedeliverStatus, "read" | "problems"> & { readonly kind: "no-list" | "part" | "swept" }> {
  const begunAt = memory.pass?.begunAt ?? now;
  const good = new Set(memory.pass?.good ?? []);
  let cursor = memory.pass?.cursor ?? null;
  let read = 0;
  for (let page = 0; page < PAGES; page += 1) {
    const answer = await ports.github.listHookDeliveries({ cursor });
    if (!answer.ok) {
      // What was read counts; a cursor that GitHub does not take any more must not be kept for ever.
      memory.pass = null;
      return { kind: "no-list", read, problems: [`GitHub's list of deliveries: ${describeFailure(answer.error)}.`] };
    }
    const { deliveries, nextCursor } = answer.value;
    read += deliveries.length;
    for (const delivery of deliveries) look(delivery, memory, good, now);
    const oldest = deliveries.at(-1)?.deliveredAt ?? null;
    if (nextCursor === null || (oldest !== null && oldest < memory.settledUntil)) {
      memory.pass = null;
      memory.settledUntil = Math.max(memory.settledUntil, begunAt - OVERLAP_MS);
      return { kind: "swept", read, problems: [] };
    }
    cursor = nextCursor;
  }
  memory.pass = cursor === null ? null : { cursor, begunAt, good: [...good].slice(-REMEMBERED) };
  return { kind: "part", read, problems: [] };
}

/** Newest first: a good attempt is met before the failed ones that it makes up for. */
function look(delivery: HookDelivery, memory: Memory, good: Set<string>, now: Millis): void {
  const { guid, id, status } = delivery;
  if (status === "OK") {
    delete memory.waiting[guid];
    // The first attempt of an event has nothing older than itself to make up for.
    if (delivery.redelivery) good.add(guid);
    return;
  }
  if (good.has(guid)) return;
  const at = delivery.deliveredAt ?? now;
  if (now - at >= KEPT_MS) return;
  const known = memory.waiting[guid];
  memory.waiting[guid] =
    known === undefined
      ? { id, at, asks: 0, nextAt: now }
      : { ...known, id: newer(known.id, id), at: Math.min(known.at, at) };
}

/** Ids grow, and go beyond what a number holds. */
function newer(a: string, b: string): string {
  return BigInt(a) >= BigInt(b) ? a : b;
}

/** Asks for as many as one tick may. `left`: others are due as well. */
async function askAgain(
  memory: Memory,
  ports: RedeliverPorts,
  clock: Clock,
  problems: string[],
): Promise<{ readonly asked: number; readonly left: boolean }> {
  const now = clock.now();
  const due = Object.entries(memory.waiting)
    .filter(([, one]) => one.nextAt <= now)
    // Oldest first: they are the first that GitHub forgets.
    .toSorted(([, a], [, b]) => a.at - b.at);
  let asked = 0;
  for (const [guid, one] of due.slice(0, ASKS)) {
    const answer = await ports.github.redeliver(one.id);
    if (answer.ok) {
      asked += 1;
      const pause = Math.min(PAUSE_MOST_MS, ports.everyMs * 2 ** one.asks);
      memory.waiting[guid] = { ...one, asks: one.asks + 1, nextAt: now + pause };
    } else if (answer.error.reason === "not-found") {
      delete memory.waiting[guid];
      problems.push(`GitHub does not have the delivery ${guid} any more.`);
    } else {
      problems.push(`GitHub did not take the order for delivery ${guid}: ${answer.error.reason}.`);
    }
  }
  return { asked, left: asked > 0 && due.length > ASKS };
}

function shortened(memory: Memory): Memory {
  const newest = Object.entries(memory.waiting)
    .toSorted(([, a], [, b]) => b.at - a.at)
    .slice(0, REMEMBERED);
  return { ...memory, waiting: Object.fromEntries(newest) };
}
