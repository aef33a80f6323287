/**
 * A thousand random scripted walks against a RunPod that refuses, lies and loses answers, driven through `decide` alone.
 *
 * The model keeps every pod that exists. At each moment a pod must be somebody's: the present attempt's, a stray that was
 * handed over, or one whose attempt was closed after the look-up by its name had run to its end before anything more was
 * bought. At the end every pod that was ever known is deleted and has one opening and one closing line.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decide } from "../../shared/lifecycle/decide.ts";
import type { GateRequest, Plan } from "../../shared/lifecycle/model.ts";
import type { Step } from "../../shared/lifecycle/step.ts";
import type { CreateOutcome, Done, PodFacts, Task } from "../../shared/lifecycle/tasks.ts";
import { unreachable } from "../../shared/result.ts";
import { ALICE, around, execute, HOLD, job, known, pod, PREPARED, PULL, requestIn, T0, UNREAD } from "./fixtures.ts";

interface ModelPod {
  readonly id: string;
  readonly name: string;
  readonly attempt: string;
  readonly gpuId: string;
  readonly createdAt: number;
  /** From when lists show it. */
  readonly visibleAt: number;
  /** What is wrong with it: nothing, or what the gate must reject it for. */
  readonly fate: "good" | "wrong-gpu" | "dies" | "silent" | "bad-proof" | "script-fails" | "stranger";
  deletedAt: number | null;
  /** The gate has been told of it. */
  knownBy: "nobody" | "attempt" | "stray";
  /** A look-up by its name has shown it. */
  shown: boolean;
}

/** Small, seeded, and the same on every machine. */
function dice(seed: number) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    chance: (share: number) => next() < share,
    upTo: (most: number) => next() * most,
    pick: <T>(first: T, ...rest: T[]): T => [first, ...rest][Math.floor(next() * (rest.length + 1))] ?? first,
  };
}

/** A RunPod and a GitHub that are as bad as this walk's mood. */
class Model {
  readonly pods: ModelPod[] = [];
  /** Names whose look-up ended: a pod was found, or two complete lists had none, the second after the whole wait. */
  readonly lookedUp = new Set<string>();
  readonly ledger = { opened: [] as string[], closed: [] as string[] };
  readonly problems: string[] = [];
  creates = 0;
  now = T0;
  #lists: number[] = [];
  readonly #dice: ReturnType<typeof dice>;
  /** Share of answers that go wrong. */
  readonly #trouble: number;

  constructor(seed: number) {
    this.#dice = dice(seed);
    this.#trouble = this.#dice.upTo(0.6);
  }

  get jitter(): number {
    return this.#dice.next();
  }

  wrong(share = 1): boolean {
    return this.#dice.chance(this.#trouble * share);
  }

  visible(item: ModelPod): boolean {
    return item.deletedAt === null && item.visibleAt <= this.now;
  }

  /** Before money is spent: every pod that exists is accounted for. */
  #beforePurchase(podName: string): void {
    for (const item of this.pods) {
      if (item.deletedAt !== null) continue;
      if (item.knownBy === "attempt") this.problems.push(`${podName} is bought while ${item.id} is not gone`);
      if (item.knownBy === "nobody" && item.shown) this.problems.push(`${item.id} was shown and left alone`);
      if (item.knownBy === "nobody" && item.name !== podName && !this.lookedUp.has(item.name)) {
        this.problems.push(`${podName} is bought although ${item.name} was never looked up`);
      }
      // The same name again is only sent when nothing can have been created under it.
      if (item.name === podName) this.problems.push(`${podName} is sent again although ${item.id} exists under it`);
    }
  }

  #bear(task: Extract<Task, { kind: "create-pod" }>, lagMs: number): ModelPod {
    const born: ModelPod = {
      id: `pod-${this.pods.length + 1}`,
      name: task.podName,
      attempt: task.attemptId,
      gpuId: task.candidate.acceptedIds[0] ?? "",
      createdAt: this.now,
      visibleAt: this.now + lagMs,
      fate: this.wrong(1.5)
        ? this.#dice.pick("wrong-gpu", "dies", "silent", "bad-proof", "script-fails", "stranger")
        : "good",
      deletedAt: null,
      knownBy: "nobody",
      shown: false,
    };
    this.pods.push(born);
    return born;
  }

  #create(task: Extract<Task, { kind: "create-pod" }>): CreateOutcome {
    this.#beforePurchase(task.podName);
    this.creates += 1;
    const sentAt = this.now;
    const elapsedMs = this.#dice.upTo(Math.min(task.timeoutMs, 20_000));
    this.now += elapsedMs;
    if (!this.wrong()) {
      const born = this.#bear(task, this.#dice.upTo(5_000));
      return { kind: "created", pod: this.#facts(born), sentAt, elapsedMs };
    }
    const retryAfterMs = this.#dice.chance(0.3) ? this.#dice.upTo(30_000) : null;
    switch (
      this.#dice.pick("capacity", "rate-limited", "skip", "done-but", "lost", "late", "stop", "secret-lost", "unread")
    ) {
      case "capacity":
        return { kind: "capacity", elapsedMs };
      case "rate-limited":
        return { kind: "rate-limited", retryAfterMs, elapsedMs };
      case "skip":
        return { kind: "skip", why: this.#dice.pick("invalid", "pool"), detail: "no", elapsedMs };
      case "done-but":
        {
          const lagMs = this.#dice.upTo(60_000);
          this.#bear(task, lagMs);
          // Repeated inside RunPod: two pods for one request.
          if (this.#dice.chance(0.3)) this.#bear(task, this.#dice.chance(0.5) ? lagMs : this.#dice.upTo(20_000));
        }
        return { kind: "ambiguous", why: "http-5xx", retryAfterMs, sentAt, elapsedMs };
      case "late":
        // Appears when nobody looks any more: only its closed name tells whose it is.
        this.#bear(task, 190_000 + this.#dice.upTo(400_000));
        return { kind: "ambiguous", why: "timeout", retryAfterMs, sentAt, elapsedMs };
      case "lost":
        return { kind: "ambiguous", why: "network", retryAfterMs, sentAt, elapsedMs };
      case "stop":
        return { kind: "stop", reason: "balance", detail: "no money", elapsedMs };
      case "secret-lost":
        return { kind: "secret-lost" };
      case "unread":
        return { kind: "unread", why: "503", retryAt: null };
    }
  }

  #facts(item: ModelPod): PodFacts {
    return pod({
      id: item.id,
      name: item.name,
      gpuId: item.fate === "wrong-gpu" ? "NVIDIA H100 80GB HBM3" : item.gpuId,
      status: item.fate === "dies" && this.now - item.createdAt > 30_000 ? "ERROR" : "RUNNING",
    });
  }

  perform(task: Task, request: GateRequest): Done {
    this.now += this.#dice.upTo(300);
    switch (task.kind) {
      case "reserve":
        return { task: task.kind, outcome: { kind: "reserved" } };
      case "mint": {
        const kind = this.wrong(0.3) ? this.#dice.pick("conflict", "lost", "retry") : "minted";
        if (kind === "retry") return { task: task.kind, outcome: { kind, why: "503", retryAt: null } };
        if (kind !== "minted") return { task: task.kind, outcome: { kind } };
        const runnerId = `runner of ${task.attemptId}`;
        return { task: task.kind, outcome: { kind, runnerId, proofHash: "p", exitHash: "e" } };
      }
      case "find-runner":
        return { task: task.kind, outcome: this.wrong(0.3) ? { kind: "unknown", why: "503" } : { kind: "cleared" } };
      case "dispatch-execute":
        return {
          task: task.kind,
          outcome: this.wrong(0.3) ? { kind: "lost" } : { kind: "dispatched", runId: `run of ${task.attemptId}` },
        };
      case "find-execute":
        return { task: task.kind, outcome: { kind: "found", runId: `run of ${task.attemptId}` } };
      case "create-pod":
        this.#lists = [];
        return { task: task.kind, outcome: this.#create(task) };
      case "sleep":
        return { task: task.kind, outcome: { sleptMs: 0 } };
      case "look-up-pod":
        return { task: task.kind, outcome: this.#lookUp(task.podName, request) };
      case "observe":
        return { task: task.kind, outcome: this.#observe(task, request) };
      case "deregister": {
        const outcome = this.wrong(0.4) ? this.#dice.pick("busy" as const, "unknown" as const) : "gone";
        return { task: task.kind, outcome: outcome === "unknown" ? { kind: outcome, why: "503" } : { kind: outcome } };
      }
      case "read-record":
        return { task: task.kind, outcome: { pricePerHour: this.wrong() ? null : 0.2, said: null } };
      case "delete-pod":
        return { task: task.kind, outcome: this.#delete(task.podId) };
      case "verify-gone": {
        if (this.wrong(0.5)) return { task: task.kind, outcome: { kind: "unknown", why: "503" } };
        // A GET may say 404 of a pod that lives on: the lists are there for that.
        return { task: task.kind, outcome: { kind: this.#alive(task.podId) && !this.wrong(0.5) ? "alive" : "gone" } };
      }
      case "list-pods": {
        if (this.wrong(0.5)) return { task: task.kind, outcome: { kind: "unknown", why: "503" } };
        const complete = !this.wrong(0.5);
        const alive = this.#alive(task.podId) && complete;
        return { task: task.kind, outcome: { kind: "listed", startedAt: this.now, complete, alive } };
      }
      case "cancel-run":
        return { task: task.kind, outcome: { kind: this.wrong(0.3) ? "not-ours" : "completed" } };
      case "read-run":
        return { task: task.kind, outcome: { kind: "completed" } };
      case "settle":
        return { task: task.kind, outcome: { kind: "settled" } };
      default:
        throw new Error(`no walk asks for ${task.kind}`);
    }
  }

  #alive(podId: string): boolean {
    return this.pods.some((item) => item.id === podId && item.deletedAt === null);
  }

  #delete(podId: string): Extract<Done, { task: "delete-pod" }>["outcome"] {
    const item = this.pods.find((candidate) => candidate.id === podId);
    if (item === undefined) throw new Error(`${podId} was never there`);
    if (this.wrong(0.3)) return { kind: "unknown", why: "503" };
    if (item.deletedAt !== null) return { kind: "not-found" };
    // Accepted, and sometimes not done.
    if (!this.wrong(0.3)) item.deletedAt = this.now;
    return { kind: "deleted" };
  }

  #lookUp(name: string, request: GateRequest): Extract<Done, { task: "look-up-pod" }>["outcome"] {
    if (this.wrong(0.5)) return { kind: "unknown", why: "503" };
    const complete = !this.wrong(0.5);
    const found = this.pods.filter((item) => item.name === name && this.visible(item));
    for (const item of found) item.shown = true;
    if (found.length > 0) this.lookedUp.add(name);
    if (complete && found.length === 0) {
      this.#lists.push(this.now);
      const since = request.state.kind === "provisioning" ? request.state.stepSince : this.now;
      const wait = request.terms?.limits.createLookup ?? 0;
      if (this.#lists.length >= 2 && this.now - since >= wait) this.lookedUp.add(name);
    }
    return { kind: "listed", startedAt: this.now, complete, pods: found.map((item) => this.#facts(item)) };
  }

  #observe(
    task: Extract<Task, { kind: "observe" }>,
    request: GateRequest,
  ): Extract<Done, { task: "observe" }>["outcome"] {
    const { want } = task;
    const item = this.pods.find((candidate) => candidate.id === want.pod?.id);
    const attempt = "attempt" in request.state ? request.state.attempt : null;
    const age = item === undefined ? 0 : this.now - item.createdAt;
    const seen = item === undefined || this.wrong(0.3) ? UNREAD : known({ pod: this.#facts(item), getGone: false });
    const finished = job({
      runnerId: attempt?.runner?.id ?? null,
      startedAt: this.now - 60_000,
      completedAt: this.now,
    });
    const waiting = job({ status: "queued", conclusion: null, runnerId: null, evidence: null, steps: [] });
    return {
      ...(want.pull === undefined ? {} : { pull: this.wrong(0.2) ? UNREAD : known(PULL) }),
      ...(want.pod === undefined ? {} : { pod: seen }),
      ...(want.runner === undefined
        ? {}
        : { runner: this.wrong(0.2) ? UNREAD : known({ online: item?.fate === "good", busy: false }) }),
      ...(want.job === undefined
        ? {}
        : {
            job: this.wrong(0.2) ? UNREAD : known(execute(item?.fate === "good" && age > 90_000 ? finished : waiting)),
          }),
    };
  }

  /** What the pod itself says, or GitHub about its runner, between two tasks. */
  word(request: GateRequest): Parameters<typeof decide>[1] | null {
    const { state } = request;
    if (state.kind !== "provisioning" || state.attempt === null || this.#dice.chance(0.5)) return null;
    const attempt = state.attempt;
    const item = this.pods.find((candidate) => candidate.attempt === attempt.id && candidate.deletedAt === null);
    if (item === undefined || item.visibleAt > this.now) return null;
    switch (item.fate) {
      case "good":
      case "bad-proof":
      case "stranger": {
        if (attempt.proof !== null) {
          if (item.fate !== "stranger") return null;
          return { kind: "hint", stranger: { runnerId: attempt.runner?.id ?? "", runId: "somebody's" } };
        }
        const gpuName = item.fate === "bad-proof" ? "NVIDIA GeForce GTX 1050" : item.gpuId;
        const proof = {
          at: this.now,
          podId: item.id,
          gpuName,
          gpuUuid: `GPU-${item.id}`,
          vramMb: 16_000,
          driverCuda: "12.8",
          nvrtc: "12.8",
          count: 1,
          scriptHash: null,
        };
        return { kind: "proof", attemptId: attempt.id, proof, knownBad: this.wrong(0.2) ? 2 : 0 };
      }
      case "script-fails":
        return {
          kind: "exit",
          attemptId: attempt.id,
          code: 1,
          reason: this.#dice.pick("gpu-error", "bad-facts", "terminated"),
        };
      case "wrong-gpu":
      case "dies":
      case "silent":
        return null;
      default:
        return unreachable(item.fate, "fate");
    }
  }

  take(step: Step): void {
    for (const op of step.ledger) {
      (op.kind === "open" ? this.ledger.opened : this.ledger.closed).push(op.podId);
      const item = this.pods.find((candidate) => candidate.id === op.podId);
      if (item === undefined) this.problems.push(`the ledger speaks of ${op.podId}, which never was`);
      else if (op.kind === "open") item.knownBy = "attempt";
      else if (item.deletedAt === null) this.problems.push(`${op.podId} is closed in the ledger and still alive`);
    }
    for (const stray of step.strays) {
      const item = this.pods.find((candidate) => candidate.id === stray.podId);
      if (item === undefined) this.problems.push(`${stray.podId} is a stray that never was`);
      else {
        // The gate's own lane removes it; here it is gone.
        item.knownBy = "stray";
        item.deletedAt = this.now;
      }
    }
  }
}

const MOST_STEPS = 4_000;

/** Walks one request from the lock to its verdict. */
function walk(seed: number) {
  const model = new Model(seed);
  const random = dice(seed ^ 0x5bd1e995);
  const plan: Plan = {
    madeAt: T0,
    candidates: ["A", "B", "C", "D"].slice(0, 1 + Math.floor(random.upTo(4))).map((letter) => ({
      name: `candidate-${letter}`,
      tier: "first",
      acceptedIds: [`GPU ${letter}`],
      price: 0.2,
    })),
    image: `registry.test/runner@sha256:${"0".repeat(64)}`,
    ceilingPrice: 1.6,
  };
  let request = requestIn(
    { kind: "revalidating", step: "plan", since: T0, tries: 0, hold: HOLD, prepared: PREPARED, backToPreparing: 0 },
    { actor: ALICE },
  );
  const scheduled: { readonly task: Task; readonly dueAt: number }[] = [];
  const current = () => {
    const last = scheduled.at(-1);
    if (last === undefined) throw new Error("a walk without a task");
    return last;
  };
  let tasks = 1;
  const surroundings = () => around(model.now, { jitter: model.jitter, nonce: `nonce-${tasks}` });
  const take = (step: Step): void => {
    model.take(step);
    request = step.request;
    if (step.task === null) return;
    tasks += 1;
    scheduled.push(step.task);
    request = { ...request, task: { id: tasks, kind: step.task.task.kind } };
  };
  const planned: Done = { task: "plan", outcome: { kind: "planned", plan } };
  take(decide(request, { kind: "done", taskId: request.task?.id ?? 1, done: planned }, surroundings()));
  let steps = 0;
  while (request.state.kind !== "concluded" && steps < MOST_STEPS) {
    steps += 1;
    const due = current();
    model.now = Math.max(model.now, due.dueAt);
    const before = tasks;
    const word = model.word(request);
    if (word !== null) take(decide(request, word, surroundings()));
    // A word may have replaced the task that waited.
    if (tasks !== before) continue;
    const done = model.perform(due.task, request);
    take(decide(request, { kind: "done", taskId: tasks, done }, surroundings()));
  }
  return { model, request, steps };
}

describe("random walks", () => {
  it("never own a pod that nobody knows, and never buy before an unclear answer was looked up", () => {
    let creates = 0;
    let adopted = 0;
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffffffff }), (seed) => {
        const { model, request, steps } = walk(seed);
        expect(model.problems).toEqual([]);
        expect({ state: request.state.kind, steps: steps < MOST_STEPS }).toEqual({ state: "concluded", steps: true });
        for (const item of model.pods) {
          // What is left alive at the end appeared behind its look-up: the reaper's, at first sight of a closed name.
          if (item.deletedAt === null)
            expect({ pod: item, looked: model.lookedUp.has(item.name) }).toMatchObject({
              looked: true,
              pod: { knownBy: "nobody", shown: false },
            });
        }
        expect(model.ledger.closed.toSorted()).toEqual(model.ledger.opened.toSorted());
        expect(new Set(model.ledger.opened).size).toBe(model.ledger.opened.length);
        creates += model.creates;
        adopted += model.ledger.opened.length;
      }),
      { numRuns: 1_000 },
    );
    // The walks really bought, and really met trouble.
    expect(creates).toBeGreaterThan(1_400);
    expect(adopted).toBeGreaterThan(700);
  });
});
