/**
 * Registrations of ours that stayed behind at GitHub: which of them are to be removed now, and which somebody must be told of.
 *
 * Every attempt removes its own. What stays behind is what nobody could: a mint whose answer was lost for good, a runner that
 * GitHub called busy, an hour without GitHub. Such a registration costs nothing but can take a job if its configuration is
 * still about, and clutters the list that people read. GitHub removes an ephemeral runner that was offline for a day by
 * itself; until then, and for those that it does not, this duty does.
 *
 * A registration is ours by its whole name, which an attempt of this gate has, or which only this deployment and repository
 * could have given. Anything else is somebody else's and is never touched.
 */
import * as z from "zod";
import type { Millis } from "../ports.ts";
import { podName } from "../runpod/tags.ts";
import { REQUEST_ID } from "./request-id.ts";

/** A registration as GitHub lists it. */
export interface SeenRunner {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly busy: boolean;
}

/**
 * Whose a registration is, by its name. `open`: its attempt may still run, or a pod of it is not proven gone. `closed`: its
 * attempt is over. `unheard`: our kind of name, and no attempt that this gate remembers (its database is gone, or another copy of this
 * deployment has one). `foreign`: not ours.
 */
export type RunnerStanding = "open" | "closed" | "unheard" | "foreign";

const leftRunner = z.object({
  id: z.string(),
  name: z.string(),
  /** Since when every look has found it offline. */
  since: z.number(),
  /** Tries to remove it that did not remove it. */
  tries: z.number().int().nonnegative(),
  /** What GitHub said to the last of them. */
  why: z.string().nullable(),
});

export type LeftRunner = z.infer<typeof leftRunner>;

export const leftRunners = z.object({
  /** The list that it was read from. An id means a runner there; elsewhere it is another one, perhaps somebody else's. */
  at: z.string(),
  /** When GitHub's list was last read. */
  listedAt: z.number(),
  left: z.array(leftRunner),
});

export type LeftRunners = z.infer<typeof leftRunners>;

/** Between two readings of the list. What it showed is ordered gone in every round in between, each after a look at it. */
export const LIST_EVERY_MS = 3_600_000;
/** Orders of one round: one after the other, as GitHub wants writes. */
export const ORDERS_A_ROUND = 20;
/** A list that is older says nothing any more: GitHub does not answer for this repository, or nobody asks it. */
export const UNREAD_MS = 6 * LIST_EVERY_MS;
/** Tries in vain before somebody is told. */
export const TOLD_AFTER_TRIES = 5;
/** Nothing that was bought with a registration lives longer: a pod's two hours at the most, and what came before its create. */
export const UNHEARD_MS = 3 * 3_600_000;
/** The longest ones behind are remembered; the others are found again by the next list. */
const REMEMBERED = 200;

/**
 * The attempt whose runner this deployment and repository would call so; null when it is nobody's or somebody else's
 * name. Read from the end, since a deployment's own name may hold anything, and proven by making the name anew.
 */
export function attemptOfName(name: string, deployment: string, repositoryId: string): string | null {
  const attemptId = ATTEMPT_AT_END.exec(name)?.[1] ?? null;
  return attemptId !== null && podName({ deployment, repositoryId, attemptId }) === name ? attemptId : null;
}

const ATTEMPT_AT_END = new RegExp(`-(${REQUEST_ID}-[1-9]\\d?)$`);

/** What the list at `at` shows of ours and nobody needs; what is no longer on it is forgotten, and all of another list. */
export function seenLeft(
  at: string,
  seen: readonly SeenRunner[],
  standingOf: (name: string) => RunnerStanding,
  before: LeftRunners | null,
  now: Millis,
): LeftRunners {
  const known = new Map((before?.at === at ? before.left : []).map((one) => [one.id, one]));
  const left = seen.flatMap((runner): LeftRunner[] => {
    if (runner.status !== "offline") return [];
    const standing = standingOf(runner.name);
    if (standing !== "closed" && standing !== "unheard") return [];
    // Nothing is known of an unheard one but what GitHub says: a job on it means that it lives.
    if (standing === "unheard" && runner.busy) return [];
    const { id, name } = runner;
    const same = known.get(id);
    return [same?.name === name ? same : { id, name, since: now, tries: 0, why: null }];
  });
  return { at, listedAt: now, left: left.toSorted((a, b) => a.since - b.since).slice(0, REMEMBERED) };
}

/**
 * Those to order gone in this round, least tried first. One that no attempt is remembered for waits until nobody's attempt can
 * still need it.
 */
export function ordersOf(
  memory: LeftRunners,
  standingOf: (name: string) => RunnerStanding,
  now: Millis,
): readonly LeftRunner[] {
  return memory.left
    .filter((one) => {
      const standing = standingOf(one.name);
      // An unheard one may have come online since the list: only what this very round has listed counts.
      if (standing === "unheard") return memory.listedAt === now && now - one.since >= UNHEARD_MS;
      return standing === "closed";
    })
    .toSorted((a, b) => a.tries - b.tries)
    .slice(0, ORDERS_A_ROUND);
}

/**
 * What becomes of one by the look just before its order, since the list is up to an hour old. `forget`: it is no longer what the
 * list showed, and a later list may show it again. `busy`: a machine may have it, or GitHub has not noticed that none does.
 */
export function lookedAt(one: LeftRunner, seen: SeenRunner, standing: RunnerStanding): "order" | "busy" | "forget" {
  if (seen.id !== one.id || seen.name !== one.name || seen.status !== "offline") return "forget";
  if (standing !== "closed" && standing !== "unheard") return "forget";
  if (!seen.busy) return "order";
  // An unheard one with a job lives, for all that is known: its time begins anew.
  return standing === "unheard" ? "forget" : "busy";
}

/** After a try in vain: `why` is what GitHub said. */
export function triedInVain(memory: LeftRunners, id: string, why: string): LeftRunners {
  return { ...memory, left: memory.left.map((one) => (one.id === id ? { ...one, tries: one.tries + 1, why } : one)) };
}

/** Without this one: it is gone, or not ours to remove any more. */
export function without(memory: LeftRunners, id: string): LeftRunners {
  return { ...memory, left: memory.left.filter((one) => one.id !== id) };
}

/** Those that somebody should be told of; none when their list is long unread. */
export function stuckRunners(memory: LeftRunners, now: Millis): readonly LeftRunner[] {
  return isUnread(memory, now) ? [] : memory.left.filter((one) => one.tries >= TOLD_AFTER_TRIES);
}

export function isUnread({ listedAt }: LeftRunners, now: Millis): boolean {
  return now - listedAt > UNREAD_MS;
}
