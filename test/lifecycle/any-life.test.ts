/**
 * Any life: a request is fed random outcomes, events and delays for a while, then the world heals. Whatever happened, money
 * is accounted for, the lock is given back, and the request ends.
 */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { GateEvent } from "../../shared/lifecycle/decide.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Done, Observation, Outcomes, TaskKind } from "../../shared/lifecycle/tasks.ts";
import { eventsOf, outcomes } from "./events.ts";
import {
  execute,
  job,
  known,
  OTHER_HEAD,
  pod,
  PROOF,
  PULL,
  QUEUED_JOB,
  requestIn,
  SETTING_UP,
  states,
  STOP,
  TESTING,
  UNREAD,
  where,
} from "./fixtures.ts";
import { Story } from "./story.ts";

/** mulberry32: the same seed gives the same life. */
function dice(seed: number): (sides: number) => number {
  let state = seed >>> 0;
  return (sides) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  };
}

class Life {
  readonly story = new Story(requestIn(states.received()));
  readonly faults: string[] = [];
  readonly #roll: (sides: number) => number;
  #pods = 0;

  constructor(seed: number) {
    this.#roll = dice(seed);
    this.story.event({ kind: "opened" });
  }

  /** Wild: any outcome there is, and events from outside. Healed: what a good day brings. */
  live(steps: number, healed: boolean): void {
    for (let step = 0; step < steps && this.story.kind !== "concluded"; step += 1) {
      if (!healed && this.#roll(6) === 0) this.#happen();
      if (healed && this.story.at === "provisioning/start") this.story.event(this.#proof());
      this.#grant();
      this.#check();
      const { task } = this.story;
      if (task === null) {
        if (this.story.at !== "concluded") this.faults.push(`${this.story.at} has no task`);
        return;
      }
      this.story.now = Math.max(this.story.now, task.dueAt) + this.#roll(healed ? 500 : 30_000);
      this.#answer(task.task.kind, healed);
      this.#check();
    }
  }

  #answer(kind: TaskKind, healed: boolean): void {
    const { story } = this;
    if (kind === "observe") return void story.observe(healed ? this.#goodLook() : this.#anyLook());
    if (kind === "sleep") return void story.answer(kind, { sleptMs: this.#roll(10_000) });
    if (kind === "read-record") return void story.answer(kind, { pricePerHour: this.#roll(2) === 0 ? null : 0.3 });
    if (kind === "create-pod") return void story.answer(kind, this.#create(healed));
    if (kind === "look-up-pod") return void story.answer(kind, this.#lookUp(healed));
    if (kind === "list-pods") {
      const startedAt = story.now - (healed ? 0 : this.#roll(20_000));
      const good = {
        kind: "listed",
        startedAt,
        complete: healed || this.#roll(4) > 0,
        alive: !healed && this.#roll(8) === 0,
      } as const;
      return void story.answer(kind, healed || this.#roll(3) > 0 ? good : outcomes["list-pods"].unknown);
    }
    const good: Partial<Record<TaskKind, unknown>> = {
      authorize: outcomes.authorize.admitted,
      "dispatch-prepare": outcomes["dispatch-prepare"].dispatched,
      "find-prepare": outcomes["find-prepare"].found,
      recheck: outcomes.recheck.admitted,
      plan: outcomes.plan.planned,
      reserve: outcomes.reserve.reserved,
      mint: outcomes.mint.minted,
      "find-runner": outcomes["find-runner"].cleared,
      "dispatch-execute": outcomes["dispatch-execute"].dispatched,
      "find-execute": outcomes["find-execute"].found,
      deregister: outcomes.deregister.gone,
      "delete-pod": outcomes["delete-pod"].deleted,
      "verify-gone": outcomes["verify-gone"].gone,
      "cancel-run": outcomes["cancel-run"].completed,
      "read-run": outcomes["read-run"].completed,
      settle: outcomes.settle.settled,
    };
    const all: readonly unknown[] = Object.values(outcomes[kind]);
    // Most calls go well, or no life would get far; removals go wrong more often.
    const removal = ["delete-pod", "verify-gone", "cancel-run", "read-run", "deregister", "settle"].includes(kind);
    const outcome = healed || this.#roll(removal ? 3 : 12) > 0 ? good[kind] : all[this.#roll(all.length)];
    this.#tell({ task: kind, outcome } as Done);
  }

  #tell(done: Done): void {
    this.story.answer(done.task, done.outcome);
  }

  #newPod() {
    this.#pods += 1;
    const gpuId = this.#roll(5) === 0 ? "GPU X" : (this.#attempt()?.candidate?.acceptedIds[0] ?? "GPU A");
    return pod({ id: `pod-${this.#pods}`, gpuId, runtimeUp: null, startedAt: null });
  }

  #create(healed: boolean): Outcomes["create-pod"] {
    const sentAt = this.story.now;
    if (healed || this.#roll(2) === 0) return { kind: "created", pod: this.#newPod(), sentAt, elapsedMs: 1_000 };
    const all = Object.values(outcomes["create-pod"]).filter((one) => one.kind !== "created");
    const one = all[this.#roll(all.length)] ?? outcomes["create-pod"].capacity;
    return one.kind === "ambiguous" ? { ...one, sentAt } : one;
  }

  #lookUp(healed: boolean): Outcomes["look-up-pod"] {
    if (!healed && this.#roll(4) === 0) return outcomes["look-up-pod"].unknown;
    const found = this.#roll(6) === 0 ? [this.#newPod()] : [];
    return { kind: "listed", startedAt: this.story.now, complete: healed || this.#roll(3) > 0, pods: found };
  }

  #attempt() {
    const { state } = this.story.request;
    return "attempt" in state ? state.attempt : null;
  }

  #proof(): GateEvent {
    const attempt = this.#attempt();
    const gpuName = attempt?.candidate?.acceptedIds[0] ?? "GPU A";
    const proof = { ...PROOF, podId: attempt?.pod?.id ?? "pod-1", gpuName };
    return { kind: "proof", attemptId: attempt?.id ?? "r1-1", proof };
  }

  #sighting(status: "RUNNING" | "EXITED" = "RUNNING"): NonNullable<Observation["pod"]> {
    const attempt = this.#attempt();
    const id = attempt?.pod?.id ?? "none";
    const shown = pod({
      id,
      gpuId: attempt?.pod?.gpuId ?? "GPU A",
      status,
      startedAt: null,
      idle: this.#roll(2) === 0,
    });
    return known({ pod: shown, getGone: false });
  }

  #goodLook(): Observation {
    const attempt = this.#attempt();
    const prepareRun = known({ status: "completed", conclusion: "success", failedJobs: [], artifacts: [], url: "u" });
    const trigger = known({ runId: "7", status: "in_progress", actor: { id: "11", login: "alice" } });
    return {
      pull: known(PULL),
      triggerRun: trigger,
      prepareRun,
      preGate: known({ kind: "ready" }),
      job: known(execute(job({ runnerId: attempt?.runner?.id ?? null }))),
      pod: this.#sighting(),
      runner: known({ online: true, busy: false }),
    };
  }

  #anyLook(): Observation {
    const good = this.#goodLook();
    const runnerId = this.#attempt()?.runner?.id ?? null;
    const jobs = [
      QUEUED_JOB,
      { ...SETTING_UP, runnerId },
      { ...TESTING, runnerId },
      job({ runnerId }),
      job({ runnerId, evidence: null }),
      { ...TESTING, runnerId: "99" },
    ];
    const pulls = [
      { ...PULL, draft: true },
      { ...PULL, open: false },
      { ...PULL, headSha: OTHER_HEAD },
    ];
    const pull = this.#roll(60) === 0 ? (pulls[this.#roll(pulls.length)] ?? PULL) : PULL;
    const theJob = jobs[this.#roll(jobs.length)] ?? null;
    return {
      ...good,
      pull: this.#roll(6) === 0 ? UNREAD : this.#roll(30) === 0 ? known("gone") : known(pull),
      job: this.#roll(4) === 0 ? UNREAD : this.#roll(12) === 0 ? known("gone") : known(execute(theJob)),
      pod:
        this.#roll(4) === 0
          ? UNREAD
          : this.#roll(8) === 0
            ? known({ pod: null, getGone: true })
            : this.#sighting(this.#roll(8) === 0 ? "EXITED" : "RUNNING"),
      runner: this.#roll(3) === 0 ? UNREAD : known({ online: this.#roll(2) === 0, busy: this.#roll(3) === 0 }),
    };
  }

  #happen(): void {
    const attempt = this.#attempt();
    const events: readonly GateEvent[] = [
      { kind: "opened" },
      { kind: "hint" },
      { kind: "hint" },
      { kind: "lock-granted", fence: 99 },
      { kind: "exit", attemptId: attempt?.id ?? "r1-1", code: 0 },
      this.#proof(),
      this.#proof(),
    ];
    // A grant is the shell's doing and comes only to who waits.
    const event =
      this.#roll(40) === 0
        ? ({ kind: "stop", verdict: STOP, inFlight: true } as const)
        : events[this.#roll(events.length)];
    if (event === undefined || (event.kind === "lock-granted" && this.story.kind === "queued")) return;
    this.story.event(event);
  }

  #grant(): void {
    if (this.story.kind === "queued" && this.#roll(3) === 0)
      this.story.event({ kind: "lock-granted", fence: this.story.locks.length });
  }

  /** What must hold at every instant. */
  #check(): void {
    const { story } = this;
    const open = openPods(story);
    if (open.length > 1) this.faults.push(`two paid pods at once: ${open.join(", ")} at ${story.at}`);
    if (story.kind === "concluded" && open.length > 0) this.faults.push(`concluded with ${open.join(", ")}`);
    if (story.asks === "cancel-run" && open.length > 0)
      this.faults.push(`a run is cancelled before ${open.join(", ")} is gone`);
    if (story.asks === "create-pod" && open.length > 0) this.faults.push(`a create beside ${open.join(", ")}`);
    if (story.asks === "create-pod" && !holdsLock(story)) this.faults.push("a create without the lock");
  }
}

function openPods(story: Story): readonly string[] {
  const open = new Set<string>();
  for (const op of story.ledger) {
    if (op.kind === "open") open.add(op.podId);
    else open.delete(op.podId);
  }
  return [...open];
}

/** Every stay in the queue or under the lock that began has been given up, except the present one. */
function holdsLock(story: Story): boolean {
  const begun = story.locks.filter((word) => word === "enqueue").length;
  const ended = story.locks.filter((word) => word !== "enqueue").length;
  return begun === ended + 1;
}

function closings(story: Story): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const op of story.ledger) if (op.kind === "close") counts[op.podId] = (counts[op.podId] ?? 0) + 1;
  return counts;
}

const seeds = fc.integer({ min: 0, max: 0x7fff_ffff });

describe("any life", () => {
  test("ends when the world heals, with every pod paid for once, and the lock given back", () => {
    const ends = new Set<string>();
    fc.assert(
      fc.property(seeds, fc.integer({ min: 0, max: 150 }), (seed, wild) => {
        const life = new Life(seed);
        life.live(wild, false);
        life.live(3_000, true);
        const { story } = life;
        expect({ at: story.at, faults: life.faults }).toEqual({ at: "concluded", faults: [] });
        expect(Object.values(closings(story)).every((times) => times === 1)).toBe(true);
        expect(story.locks.filter((word) => word === "enqueue").length).toBe(
          story.locks.filter((word) => word !== "enqueue").length,
        );
        ends.add(`${story.verdict.kind}, ${story.verdict.reason}`);
      }),
      { numRuns: 1_500 },
    );
    // The property says something only if lives differ.
    expect(ends.size).toBeGreaterThan(15);
    expect([...ends]).toContain("passed, tests-passed");
  });

  test("passed is only said with the evidence, whatever came before", () => {
    fc.assert(
      fc.property(seeds, fc.integer({ min: 0, max: 150 }), (seed, wild) => {
        const life = new Life(seed);
        life.live(wild, false);
        life.live(3_000, true);
        const { request, verdict, ledger } = life.story;
        const evidence = (request.tests?.count ?? 0) >= 1 && ledger.some((op) => op.kind === "close");
        expect(verdict.kind === "passed" && !evidence).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  test("bought pods and begun attempts stay within their bounds", () => {
    fc.assert(
      fc.property(seeds, (seed) => {
        const life = new Life(seed);
        life.live(600, false);
        const { counts, terms }: GateRequest = life.story.request;
        const pods = terms?.maxAttempts ?? 6;
        expect(counts.pods).toBeLessThanOrEqual(pods);
        expect(counts.attempts).toBeLessThanOrEqual(pods * 4);
      }),
      { numRuns: 300 },
    );
  });

  test("every situation of the table can be left: no event makes it a dead end", () => {
    const stuck: string[] = [];
    for (const kind of ["provisioning", "executing", "cleaning"] as const) {
      const state =
        kind === "provisioning"
          ? states.provisioning("start")
          : kind === "executing"
            ? states.executing()
            : states.cleaning("delete");
      const one = { name: where(state), request: requestIn(state), task: null };
      for (const [name, event] of eventsOf(one)) {
        const story = new Story(one.request);
        story.task = { task: { kind: "sleep" }, dueAt: story.now };
        story.event(event);
        if (story.kind !== "concluded" && story.task === null) stuck.push(`${one.name}, ${name}`);
      }
    }
    expect(stuck).toEqual([]);
  });
});
