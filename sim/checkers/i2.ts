/**
 * I2: every pod ever created is proven gone, and the ledger has exactly one closing line for it. "Proven" must be true: no
 * line may close while RunPod still bills the pod. And it must be a proof: behind the answer to the DELETE that the line
 * names, somebody read the pod, and two lists were asked for that are spaced as the design says. No line is about a pod that
 * never was, or stands in another repository's book.
 */
import type { FaultKind } from "../faults.ts";
import type { NetRequest } from "../net.ts";
import type { Checker, WorldView } from "../view.ts";
import { boundMs, shortMs, worthOf } from "./estimate-bound.ts";

type Line = { pod_id: string; proven_at: number | null; closed_at: number | null; estimate_micros: number | null };

/** Between the two lists of a proof. */
const SPACING_MS = 10_000;
/** The longest that one tick of cron with slow answers takes. */
const TICK_MS = 300_000;

/** What was asked of RunPod, by the providers' clock; no record of the product's. */
class Asked {
  /** First pages only. */
  readonly lists: number[] = [];
  /** When an order was performed whose asker heard that the pod is gone. */
  readonly #heardOrders = new Map<string, { readonly at: number; readonly status: number }[]>();
  #now = 0;
  /** When those were asked for that were answered, and whose asker heard it. */
  readonly #answered: number[] = [];
  readonly #reads = new Map<string, number[]>();
  readonly #orders = new Map<string, number>();
  readonly #lastOrders = new Map<string, number>();
  /** Pods that cron ordered gone, and when it last did so while the account remembered nothing of it. */
  readonly #unremembered = new Map<string, number>();
  readonly #remembered = new Set<string>();

  hear(world: WorldView, operation: string, request: NetRequest): void {
    this.#now = world.now;
    if (operation === "listPods") {
      if (!request.query.has("cursor")) this.lists.push(request.askedAt);
      return;
    }
    if (operation !== "getPod" && operation !== "deletePod") return;
    const id = decodeURIComponent(request.path.split("/").at(-1) ?? "");
    if (operation === "getPod") {
      this.#reads.set(id, [...(this.#reads.get(id) ?? []), request.askedAt]);
      return;
    }
    if (!this.#orders.has(id)) this.#orders.set(id, request.askedAt);
    this.#lastOrders.set(id, request.askedAt);
    if (request.caller !== "cron") return;
    if (world.account.sql.exec("SELECT key FROM meta WHERE key = ?", `owed:${id}`).length > 0) this.#remembered.add(id);
    else this.#unremembered.set(id, request.askedAt);
  }

  /** An order came back: the pod is gone, by its word. */
  ordered(request: NetRequest, status: number): void {
    const id = decodeURIComponent(request.path.split("/").at(-1) ?? "");
    this.#heardOrders.set(id, [...(this.#heardOrders.get(id) ?? []), { at: this.#now, status }]);
  }

  /**
   * The first order since its end of which somebody heard that it worked, by when RunPod performed it; null: none. A 404 says so
   * only of a pod that is no newborn any more.
   */
  heardOrder(pod: Pod): number | null {
    const { id, createdAt, releasedAt } = pod;
    const since = Math.max(releasedAt ?? 0, shownUntil(pod));
    const told = this.#heardOrders
      .get(id)
      ?.find(({ at, status }) => at >= since && (status === 204 || at >= createdAt + NEWBORN_MS));
    return told?.at ?? null;
  }

  /** A list came back. */
  answered(request: NetRequest): void {
    if (!request.query.has("cursor")) this.#answered.push(request.askedAt);
  }

  /** The first list after an instant that somebody saw; the instant itself if there was none. */
  listAfter(at: number): number {
    return this.#answered.find((asked) => asked > at) ?? at;
  }

  /** The account has taken note of its removal. */
  isRemembered(podId: string): boolean {
    return this.#remembered.has(podId);
  }

  /** The last order of all; null where it says nothing of what is booked, because the account remembers the one that counted. */
  lastOrderFor(podId: string): number | null {
    return this.#remembered.has(podId) ? null : (this.#lastOrders.get(podId) ?? null);
  }

  /**
   * Cron had it deleted, and no call that was to say so came through to the account: not the one before the order, and not the
   * end of that sweep. What its gate was not told then it is never told.
   */
  isUnsaid(world: WorldView, podId: string): boolean {
    const at = this.#unremembered.get(podId);
    if (at === undefined || this.#remembered.has(podId)) return false;
    const { unheard } = world.net;
    const before = unheard.some((one) => one.operation === `owe ${podId}` && one.at <= at && at - one.at < TICK_MS);
    // It is said a second time when the first was in vain.
    const ends = unheard.filter((one) => one.operation === "endSweep" && one.at >= at && one.at - at < TICK_MS);
    return before && ends.length >= 2;
  }

  /** What the proof lacks that this line claims; its times are the product's. */
  missing({ pod_id, closed_at, proven_at }: Line, clocks: WorldView["clocks"], isLost: boolean): string | null {
    if (closed_at === null || proven_at === null) return "an end";
    const { earliest: from, latest } = clocks.when(closed_at);
    const to = clocks.when(proven_at).latest;
    // What RunPod lost by itself needs no order: cron may have taken note of it and died before it gave one (seed 3001889).
    const ordered = isLost ? from : this.#orders.get(pod_id);
    if (ordered === undefined || ordered > latest) return "an order to delete it";
    if (!isLost && (this.#reads.get(pod_id) ?? []).every((at) => at < from || at > to))
      return "a look at the pod after the DELETE";
    const lists = this.lists.filter((at) => at >= from && at <= to);
    // As they were asked for: a slow one is performed after a later one.
    if (lists.length < 2 || Math.max(...lists) - Math.min(...lists) < SPACING_MS)
      return "two spaced lists after the DELETE";
    return null;
  }
}

/** RunPod lost it by itself, before any order to delete it was performed. */
function isLostUnasked({ vanished, deletes, releasedAt }: WorldView["runpod"]["pods"][number]): boolean {
  return vanished && deletes.every(({ performedAt }) => performedAt >= (releasedAt ?? 0));
}

export function i2(): Checker {
  let looked = -1;
  const asked = new Asked();
  return {
    name: "I2",
    performing(world, operation, request) {
      asked.hear(world, operation, request);
      return null;
    },
    performed(operation, request, status, heard) {
      if (operation === "listPods" && status === 200 && heard) asked.answered(request);
      if (operation === "deletePod" && heard && (status === 204 || status === 404)) asked.ordered(request, status);
    },
    step(world) {
      const seen = world.hosts.reduce((sum, host) => sum + host.writesTo("ledger"), world.runpod.pods.length);
      if (seen === looked) return null;
      looked = seen;
      for (const pod of world.runpod.pods) {
        if (pod.releasedAt !== null) continue;
        const line = lines(world, pod.id).find((one) => one.closed_at !== null || one.proven_at !== null);
        if (line !== undefined) return `the ledger calls ${pod.id} gone while RunPod bills it`;
      }
      return null;
    },
    end(world) {
      for (const pod of world.runpod.pods) {
        if (pod.releasedAt === null) return `${pod.id} (${pod.name}) was never released`;
        const mine = lines(world, pod.id);
        if (mine.length !== 1) {
          // Lost before anybody could learn of it: there is nothing to book.
          if (mine.length === 0 && (neverSeen(world, pod) || asked.isUnsaid(world, pod.id))) continue;
          return `${pod.id} has ${mine.length} lines in the ledger`;
        }
        const line = mine[0];
        if (line === undefined || line.closed_at === null || line.proven_at === null)
          return `${pod.id} has no closing line in the ledger`;
        const missing = asked.missing(line, world.clocks, isLostUnasked(pod));
        if (missing !== null) return `${pod.id} is called gone without ${missing}`;
        const listAt = asked.listAfter(pod.releasedAt + CYCLE_MS);
        const order = {
          unsaid: asked.isUnsaid(world, pod.id),
          lastAt: asked.lastOrderFor(pod.id),
          listAt,
          remembered: asked.isRemembered(pod.id),
          heardAt: asked.heardOrder(pod),
        };
        const wrong = estimateProblem(world, pod, line.estimate_micros, order);
        if (wrong !== null) return wrong;
      }
      return strangeLine(world);
    },
  };
}

function lines(world: WorldView, podId: string): Line[] {
  return world.hosts.flatMap((host) =>
    host.sql.exec<Line>("SELECT pod_id, proven_at, closed_at, estimate_micros FROM ledger WHERE pod_id = ?", podId),
  );
}

/** A line about nothing that RunPod ever rented, or in the wrong book. */
function strangeLine(world: WorldView): string | null {
  const home = new Map(world.runpod.pods.map((pod) => [pod.id, pod.env["GPU_GATE_REPOSITORY_ID"]]));
  for (const host of world.hosts) {
    for (const { id } of host.sql.exec<{ id: string }>("SELECT pod_id AS id FROM ledger")) {
      if (!home.has(id)) return `the ledger of ${host.repository.name} has ${id}, which RunPod never rented`;
      if (home.get(id) !== host.repository.id) return `${id} stands in the ledger of ${host.repository.name}`;
    }
  }
  return null;
}

type Pod = WorldView["runpod"]["pods"][number];

/** Of one pod's removal: whether nobody could be told of it, and the order by which its end may have become known. */
interface Order {
  readonly unsaid: boolean;
  readonly lastAt: number | null;
  /** When a list was asked for, and seen, in which cron could have missed it. */
  readonly listAt: number;
  /** When the first order was performed of which somebody heard that the pod is gone; null: of none. */
  readonly heardAt: number | null;
  /** The account knows of it, and tells whoever looks later. */
  readonly remembered: boolean;
}

/** From one look of cron to the next. */
const CYCLE_MS = 62_000;

/** RunPod lost it without any order of ours, and no attempt of ours was ever told of it. */
function neverSeen(world: WorldView, pod: Pod): boolean {
  if (!pod.vanished || pod.deletes.length > 0) return false;
  return world.hosts.every(
    (host) => host.sql.exec<{ id: string }>("SELECT id FROM attempts WHERE pod_id = ?", pod.id).length === 0,
  );
}

/** What may keep an order's answer from whoever asked, or what it said from being stored. */
const VAGUE: readonly FaultKind[] = [
  "runpod-slow",
  "crash-gate",
  "crash-cron",
  "crash-account",
  "gate-down",
  "account-down",
  "account-overloaded",
  "object-fails",
  "object-done-but-lost",
];
/** What keeps the end of a sweep from the account. */
const SILENT_SWEEPS: readonly FaultKind[] = [
  "crash-cron",
  "crash-account",
  "account-down",
  "account-overloaded",
  "object-fails",
  "object-done-but-lost",
];
/** For so long after our create a 404 proves nothing (N06), and clocks that differ. */
const NEWBORN_MS = 124_000;
/** The longest pause between two orders, with what it is lengthened by chance. */
const DELETE_PAUSE_MS = 330_000;
/** Until a crashed gate is up and looks again, at the most. */
const CRASH_MS = 900_000;
/** The same for one that a bad deployment keeps down. */
const DOWN_MS = 12_000_000;

/**
 * Estimate against bill: 2 s, one request's duration at either end and the skew. Where RunPod itself kept a pod after its
 * order the difference is RunPod's, and where it lost one unasked we learn of it later: then it is never less than the bill.
 */
function estimateProblem(world: WorldView, pod: Pod, micros: number | null, order: Order): string | null {
  const last = pod.deletes.at(-1);
  if (pod.livesUntil > 0) return null;
  // A stopped pod tells no price any more: a stray that was found so late is booked at the most it can have cost.
  if (micros === null) {
    const lost = pod.vanished || last === undefined;
    return lost || bookedAtMost(world, pod) ? null : `${pod.id} was closed without an estimate`;
  }
  const bill = world.runpod.billed(pod);
  // A create or a delete takes a minute at most before its caller gives up.
  const calm = world.faults.plan.weights.size === 0;
  // The create's request may be counted before it was performed.
  const askingMs = pod.createdAt - pod.askedAt;
  const worth = (ms: number): number => worthOf(pod, ms);
  // A pod that came late and was adopted is reckoned from our order on, and one whose DELETE was answered to a gate that had
  // crashed to the next look: more than the bill, and never less.
  // A DELETE whose answer is lost is only known by a later order's 404: after a pause (seed 7220), or when the key is taken
  // again (seed 8077). Not so one that cron ordered and the account remembers: whoever looks later is told when it was. That is
  // when the order was answered, or else when a list no longer had the pod, which may be long after with the key withdrawn
  // meanwhile (seed 105968).
  // Where no answer is slow and nothing of ours ends or fails, the order that is answered is the end.
  const heardAt = VAGUE.some((kind) => world.faults.plan.weights.has(kind)) ? null : order.heardAt;
  // While RunPod goes on showing it as it was, nobody can know better than that it runs.
  const shown = shownUntil(pod);
  const shownAt = shown === 0 ? 0 : shown + DELETE_PAUSE_MS;
  const knownAt = Math.max(shownAt, heardAt ?? order.lastAt ?? order.listAt + DELETE_PAUSE_MS);
  const pauseMs = calm ? 0 : Math.max(0, knownAt - (pod.releasedAt ?? 0));
  const lateMs = pod.late ? pod.createdAt - pod.askedAt : 0;
  const { weights } = world.faults.plan;
  const downMs = weights.has("gate-down") ? DOWN_MS : weights.has("crash-gate") ? CRASH_MS : 0;
  // What the account remembers of an order it also has to be told of its end: sweeps that die say nothing.
  const told = order.remembered && !SILENT_SWEEPS.some((kind) => weights.has(kind));
  const crashMs = told ? 0 : downMs;
  // So is one that cron removed and could tell nobody of: the gate reckons to its own look.
  const highest =
    pod.vanished || order.unsaid || last === undefined
      ? Infinity
      : worth(boundMs(world) + askingMs + lateMs + crashMs + pauseMs);
  if (bill - micros <= worth(shortMs(world, pod)) && micros - bill <= highest) return null;
  const seconds = ((micros - bill) * 3_600_000) / (pod.price * 1_000_000) / 1000;
  return `${pod.id}: estimate and bill are ${seconds.toFixed(1)} s apart`;
}

/** Until when RunPod showed it as it was before it was released; 0: it did not. */
function shownUntil({ ghost, listedUntil, readUntil }: Pod): number {
  return ghost === "TERMINATED" ? 0 : Math.max(listedUntil, readUntil);
}

function bookedAtMost(world: WorldView, pod: Pod): boolean {
  return world.hosts.some((host) =>
    host.sql
      .exec<{ state: string; micros: number }>(
        "SELECT state, micros FROM money WHERE attempt_id = ?",
        `stray-${pod.id}`,
      )
      .some((line) => line.state === "spent" && line.micros >= world.runpod.billed(pod) - 1_000),
  );
}
