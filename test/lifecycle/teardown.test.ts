/** The removal of an attempt: order, what proves absence, what is never delayed and never given up. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Attempt, Teardown } from "../../shared/lifecycle/model.ts";
import type { Done, Outcomes } from "../../shared/lifecycle/tasks.ts";
import {
  advanceTeardown,
  beginTeardown,
  paidWindow,
  type TeardownMove,
  type TeardownScope,
} from "../../shared/lifecycle/teardown.ts";
import { outcomes } from "./events.ts";
import { attemptAt, LIMITS, MINUTE, PREPARE_RUN, RUN, SECOND, T0, teardownAt } from "./fixtures.ts";

/** Old enough that a 404 on DELETE counts. */
const OLD = attemptAt("online", { createSentAt: T0 - 30 * MINUTE });

function scopeOf(attempt: Attempt | null, change: Partial<TeardownScope> = {}): TeardownScope {
  return { attempt, run: attempt?.run ?? null, jobEnded: false, limits: LIMITS, ...change };
}

function taskOf(move: TeardownMove): string {
  return move.kind === "done" ? "done" : move.task.kind;
}

/** One removal, answered step by step: the clock stands where the last task was due. */
function removal(scope: TeardownScope, deregisterFirst = false) {
  let now = T0;
  let move = beginTeardown(scope, deregisterFirst, now);
  return {
    get move() {
      return move;
    },
    get task() {
      return taskOf(move);
    },
    get teardown() {
      return move.teardown;
    },
    get waitsMs() {
      return move.kind === "task" ? move.dueAt - now : 0;
    },
    get now() {
      return now;
    },
    pass(ms: number) {
      now += ms;
    },
    /** The task is performed when it is due and comes back with `done`. */
    answer(done: Done) {
      if (move.kind === "task") now = Math.max(now, move.dueAt);
      move = advanceTeardown(move.teardown, done, scope, now);
      return taskOf(move);
    },
    record: (pricePerHour: number | null = 0.2) => ({ task: "read-record", outcome: { pricePerHour } }) as const,
    list(change: Partial<Extract<Outcomes["list-pods"], { kind: "listed" }>> = {}): Done {
      const due = move.kind === "task" ? Math.max(now, move.dueAt) : now;
      return {
        task: "list-pods",
        outcome: { kind: "listed", startedAt: due, complete: true, alive: false, ...change },
      };
    },
  };
}

const deleted: Done = { task: "delete-pod", outcome: outcomes["delete-pod"].deleted };
const notFound: Done = { task: "delete-pod", outcome: outcomes["delete-pod"]["not-found"] };
const deleteUnknown: Done = { task: "delete-pod", outcome: outcomes["delete-pod"].unknown };
const gone: Done = { task: "verify-gone", outcome: outcomes["verify-gone"].gone };
const alive: Done = { task: "verify-gone", outcome: outcomes["verify-gone"].alive };
const cancelled: Done = { task: "cancel-run", outcome: outcomes["cancel-run"].accepted };
const completed: Done = { task: "read-run", outcome: outcomes["read-run"].completed };
const deregistered: Done = { task: "deregister", outcome: outcomes.deregister.gone };
const deregisterUnknown: Done = { task: "deregister", outcome: outcomes.deregister.unknown };
const settled: Done = { task: "settle", outcome: outcomes.settle.settled };

describe("a DELETE that RunPod's quota refuses", () => {
  const refused = (retryAt: number): Done => ({
    task: "delete-pod",
    outcome: { kind: "unknown", why: "rate-limited", retryAt },
  });

  test("goes out again the moment the quota is back, however often it was refused", () => {
    const one = removal(scopeOf(OLD));
    one.answer(one.record());
    for (let time = 1; time <= 6; time += 1) {
      expect(one.answer(refused(one.now + one.waitsMs + 40 * SECOND))).toBe("delete-pod");
      expect([one.waitsMs, one.teardown.tries]).toEqual([40 * SECOND, 0]);
    }
    expect(one.answer({ task: "delete-pod", outcome: { kind: "deleted" } })).toBe("verify-gone");
  });

  test("told to come again at once waits a second all the same", () => {
    const one = removal(scopeOf(OLD));
    one.answer(one.record());
    one.answer(refused(one.now));
    expect(one.waitsMs).toBe(SECOND);
  });

  test("nor does a list that the quota refuses count towards longer pauses", () => {
    const one = removal(scopeOf(OLD));
    one.answer(one.record());
    one.answer({ task: "delete-pod", outcome: { kind: "deleted" } });
    one.answer({ task: "verify-gone", outcome: { kind: "gone" } });
    const retryAt = one.now + 30 * SECOND;
    expect(one.answer({ task: "list-pods", outcome: { kind: "unknown", why: "rate-limited", retryAt } })).toBe(
      "list-pods",
    );
    expect([one.waitsMs, one.teardown.tries]).toEqual([30 * SECOND, 0]);
  });

  test("waits no longer than the longest pause, whatever RunPod says", () => {
    const one = removal(scopeOf(OLD));
    one.answer(one.record());
    one.answer(refused(one.now + 24 * 60 * MINUTE));
    expect(one.waitsMs).toBe(5 * MINUTE);
  });
});

describe("the order", () => {
  test("is record, DELETE, GET, two lists, and only then the run, the runner and the money", () => {
    const it = removal(scopeOf(OLD));
    const order = [it.task];
    for (const done of [it.record(), deleted, gone]) order.push(it.answer(done));
    order.push(it.answer(it.list()), it.answer(it.list()));
    for (const done of [cancelled, completed, deregistered, settled]) order.push(it.answer(done));
    expect(order).toEqual([
      "read-record",
      "delete-pod",
      "verify-gone",
      "list-pods",
      "list-pods",
      "cancel-run",
      "read-run",
      "deregister",
      "settle",
      "done",
    ]);
  });

  test("a run whose job ended by itself is read to its end, not cancelled", () => {
    const it = removal(scopeOf(OLD, { jobEnded: true }));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    it.answer(it.list());
    expect(it.answer(it.list())).toBe("read-run");
  });

  test("an attempt that never had a pod has nothing to prove: its run is cancelled at once, its reservation returned", () => {
    const it = removal(scopeOf(attemptAt("dispatched")));
    expect(it.task).toBe("cancel-run");
    it.answer(cancelled);
    it.answer(completed);
    it.answer(deregistered);
    expect(it.move).toMatchObject({ kind: "task", task: { kind: "settle", attemptId: "r1-1", micros: null } });
  });

  test("an attempt with nothing but a reservation returns it", () => {
    expect(removal(scopeOf(attemptAt("new"))).task).toBe("settle");
  });

  test("a preparation that nobody needs any more is cancelled, and nothing is settled for it", () => {
    const it = removal(scopeOf(null, { run: PREPARE_RUN }));
    expect(it.move).toMatchObject({ task: { kind: "cancel-run", run: PREPARE_RUN } });
    it.answer(cancelled);
    expect(it.answer(completed)).toBe("done");
  });
});

describe("what proves absence", () => {
  test("N06: a 404 to the DELETE of a newborn pod proves nothing, 119 s after the create", () => {
    const it = removal(scopeOf(attemptAt("online")));
    it.answer(it.record());
    it.pass(119 * SECOND);
    expect(it.answer(notFound)).toBe("delete-pod");
    expect(it.waitsMs).toBe(1 * SECOND);
    expect(it.teardown.deletedAt).toBeNull();
  });

  test("a 404 counts 120 s after the create, and then still needs GET and both lists", () => {
    const it = removal(scopeOf(attemptAt("online")));
    it.answer(it.record());
    it.pass(120 * SECOND);
    expect(it.answer(notFound)).toBe("verify-gone");
    expect(it.answer(gone)).toBe("list-pods");
  });

  test("a 404 after our own 204 counts at any age: the answer to the first DELETE was lost on the way", () => {
    const it = removal(scopeOf(attemptAt("online")));
    it.answer(it.record());
    it.answer(deleted);
    it.answer(alive);
    expect(it.answer(notFound)).toBe("verify-gone");
  });

  test("N04: a GET that shows the pod asks for its deletion again", () => {
    const it = removal(scopeOf(OLD));
    it.answer(it.record());
    it.answer(deleted);
    expect(it.answer(alive)).toBe("delete-pod");
    expect(it.teardown.provenAt).toBeNull();
  });

  test("one list is not enough, and the second must be 10 s newer", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    expect(it.answer(it.list())).toBe("list-pods");
    expect(it.waitsMs).toBe(10 * SECOND);
    expect(it.answer(it.list({ startedAt: it.now + 9 * SECOND }))).toBe("list-pods");
    expect(it.teardown).toMatchObject({ listsAbsent: 1, provenAt: null });
    // Begun too soon by a clock behind ours: not asked for again and again without a pause.
    expect(it.move).toMatchObject({ dueAt: it.now + 1 * SECOND });
    expect(it.answer(it.list())).toBe("cancel-run");
    expect(it.teardown.provenAt).toBe(it.now);
  });

  test("the second list is spaced from when the first one was here: told is the earliest that it can have begun", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    it.pass(4 * SECOND);
    it.answer(it.list({ startedAt: it.now - 3 * SECOND }));
    expect(it.teardown).toMatchObject({ listsAbsent: 1, lastListAt: it.now });
    expect(it.waitsMs).toBe(LIMITS.absenceSpacing);
    it.answer(it.list({ startedAt: it.now + LIMITS.absenceSpacing - 1 }));
    expect(it.teardown.listsAbsent).toBe(1);
    it.pass(SECOND);
    expect(it.answer(it.list())).toBe("cancel-run");
  });

  test("the shell is told how old a list may be: begun after the DELETE's answer, and 10 s after the first", () => {
    const it = removal(scopeOf(OLD));
    it.answer(it.record());
    it.answer(deleted);
    const deletedAt = it.now;
    it.pass(2 * SECOND);
    it.answer(gone);
    expect(it.move).toMatchObject({ task: { kind: "list-pods", notBefore: deletedAt } });
    it.answer(it.list());
    expect(it.move).toMatchObject({ task: { kind: "list-pods", notBefore: it.now + 10 * SECOND } });
  });

  test("a list that began before the DELETE was answered does not count, whatever it shows", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    for (const shown of [false, true]) {
      expect(it.answer(it.list({ startedAt: T0 - 1, alive: shown }))).toBe("list-pods");
      expect(it.teardown.listsAbsent).toBe(0);
    }
  });

  test("a list that was cut short does not count", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    expect(it.answer(it.list({ complete: false }))).toBe("list-pods");
    expect(it.teardown.listsAbsent).toBe(0);
  });

  test("alive again in the second list: everything begins anew from the DELETE, and both lists are needed again", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    it.answer(it.list());
    expect(it.answer(it.list({ alive: true }))).toBe("delete-pod");
    expect(it.teardown).toMatchObject({ listsAbsent: 0, getGone: false, provenAt: null });
    it.answer(deleted);
    const again = it.now;
    it.answer(gone);
    expect(it.move).toMatchObject({ task: { notBefore: again } });
    it.answer(it.list());
    expect(it.answer(it.list())).toBe("cancel-run");
  });

  test("the DELETE that counts for the lists and the bill is the last one that was answered", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    const first = it.teardown.deletedAt;
    it.answer(it.list({ alive: true }));
    it.answer(notFound);
    expect(it.teardown.deletedAt).toBeGreaterThan(first ?? 0);
  });

  test("a pod that was gone by somebody else's order has cost up to then, but never less than up to an answer of our own", () => {
    const scope = scopeOf(OLD);
    const after = (own: number | null, at: number) => {
      const from = teardownAt("delete", { deletedAt: own });
      return advanceTeardown(from, { task: "delete-pod", outcome: { kind: "deleted", at } }, scope, T0).teardown;
    };
    expect(after(null, T0 - MINUTE)).toMatchObject({ step: "verify", deletedAt: T0 - MINUTE });
    expect(after(null, T0 + MINUTE)).toMatchObject({ deletedAt: T0 });
    expect(after(T0 - SECOND, T0 - MINUTE)).toMatchObject({ deletedAt: T0 - SECOND });
  });
});

describe("what is never given up", () => {
  test("a DELETE that gets no answer is tried 5, 5, 15, 30, 60, 120, 240, 300, 300 s later, for ever", () => {
    const it = removal(scopeOf(OLD));
    it.answer(it.record());
    const pauses = Array.from({ length: 10 }, () => {
      expect(it.answer(deleteUnknown)).toBe("delete-pod");
      return it.waitsMs / SECOND;
    });
    expect(pauses).toEqual([5, 5, 15, 30, 60, 120, 240, 300, 300, 300]);
    for (let more = 0; more < 1_000; more += 1) expect(it.answer(deleteUnknown)).toBe("delete-pod");
  });

  test("unreadable lists are asked for again, with the same bounded pauses", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    for (let times = 0; times < 50; times += 1) {
      expect(it.answer({ task: "list-pods", outcome: outcomes["list-pods"].unknown })).toBe("list-pods");
      expect(it.waitsMs).toBeLessThanOrEqual(300 * SECOND);
    }
  });
});

describe("GitHub and the deletion (N08)", () => {
  test("a runner that may still take a job is deregistered first, and a silent GitHub costs one call", () => {
    const it = removal(scopeOf(attemptAt("bought")), true);
    expect(it.task).toBe("deregister");
    expect(it.answer(deregisterUnknown)).toBe("read-record");
    expect(it.waitsMs).toBe(0);
  });

  test("a busy registration does not save its pod", () => {
    const it = removal(scopeOf(attemptAt("bought")), true);
    expect(it.answer({ task: "deregister", outcome: outcomes.deregister.busy })).toBe("read-record");
  });

  test("without a pod there is time: the registration must be gone before a late pod can find it", () => {
    const it = removal(scopeOf(attemptAt("ambiguous")), true);
    for (let times = 0; times < 5; times += 1) expect(it.answer(deregisterUnknown)).toBe("deregister");
    expect(it.answer(deregistered)).toBe("cancel-run");
  });

  test("a run that cannot be cancelled and a runner that stays busy do not hold up the end for ever", () => {
    const it = removal(scopeOf(OLD));
    for (const done of [it.record(), deleted, gone]) it.answer(done);
    it.answer(it.list());
    it.answer(it.list());
    let steps = 0;
    while (it.task !== "settle" && steps < 100) {
      steps += 1;
      if (it.task === "cancel-run") it.answer({ task: "cancel-run", outcome: outcomes["cancel-run"].unknown });
      else it.answer({ task: "deregister", outcome: outcomes.deregister.busy });
    }
    expect({ task: it.task, within: it.now - T0 < 10 * MINUTE }).toEqual({ task: "settle", within: true });
  });

  test("our own cancel is read to its end, at most five minutes", () => {
    const it = removal(scopeOf(attemptAt("dispatched")));
    it.answer(cancelled);
    const since = it.now;
    while (it.task === "read-run") it.answer({ task: "read-run", outcome: outcomes["read-run"].running });
    expect(it.now - since).toBeLessThanOrEqual(5 * MINUTE);
    expect(it.task).toBe("deregister");
  });
});

describe("the money", () => {
  const closing = teardownAt("settle", { deletedAt: T0 + 10 * MINUTE });

  test("is paid from when we learned of the pod to the DELETE's answer, at the record's price", () => {
    expect(paidWindow(attemptAt("online"), { ...closing, recordPrice: 0.3 })).toEqual({ ms: 600_000, micros: 50_000 });
  });

  test("falls back to the price the pod had, then to the candidate's", () => {
    const online = attemptAt("online");
    expect(paidWindow(online, { ...closing, recordPrice: null })?.micros).toBe(33_333);
    const unpriced = online.pod === null ? null : { ...online.pod, pricePerHour: null };
    expect(paidWindow({ ...online, pod: unpriced }, { ...closing, recordPrice: null })?.micros).toBe(33_333);
  });

  test("a price that nobody told is unknown, not zero, and the whole reservation is booked", () => {
    const online = attemptAt("online", { candidate: null });
    const attempt = { ...online, pod: online.pod === null ? null : { ...online.pod, pricePerHour: null } };
    expect(paidWindow(attempt, { ...closing, recordPrice: null })).toEqual({ ms: 600_000, micros: null });
    const move = advanceTeardown(
      { ...closing, step: "deregister", recordPrice: null },
      deregistered,
      scopeOf(attempt),
      T0,
    );
    expect(move).toMatchObject({ task: { kind: "settle", micros: attempt.reservedMicros } });
  });
});

describe("any sequence of answers", () => {
  type Kind = keyof typeof outcomes;
  const relevant: readonly Kind[] = [
    "deregister",
    "delete-pod",
    "verify-gone",
    "list-pods",
    "cancel-run",
    "read-run",
    "settle",
  ];

  /** Picks an outcome for the task at hand; lists get a start time before, at or after they were due. */
  function pick(move: Extract<TeardownMove, { kind: "task" }>, seed: number, now: number): Done {
    const kind = move.task.kind;
    if (kind === "read-record") return { task: kind, outcome: { pricePerHour: seed % 2 === 0 ? 0.2 : null } };
    if (kind === "list-pods") {
      if (seed % 4 === 0) return { task: kind, outcome: outcomes["list-pods"].unknown };
      const startedAt = now - (seed % 3) * 7 * SECOND;
      return { task: kind, outcome: { kind: "listed", startedAt, complete: seed % 5 !== 0, alive: seed % 7 === 0 } };
    }
    if (!(relevant as readonly string[]).includes(kind)) throw new Error(`no removal asks for ${kind}`);
    const all: readonly unknown[] = Object.values(outcomes[kind as Kind]);
    return { task: kind, outcome: all[seed % all.length] } as Done;
  }

  function walk(
    scope: TeardownScope,
    first: boolean,
    seeds: readonly number[],
    visit: (move: TeardownMove, before: Teardown | null) => void,
  ) {
    let now = T0;
    let move = beginTeardown(scope, first, now);
    visit(move, null);
    for (const seed of seeds) {
      if (move.kind === "done") return;
      now = Math.max(now, move.dueAt) + (seed % 2_000);
      const before = move.teardown;
      move = advanceTeardown(before, pick(move, seed, now), scope, now);
      visit(move, before);
    }
  }

  const seeds = fc.array(fc.nat(10_000), { minLength: 60, maxLength: 60 });
  const stages = fc.constantFrom<Parameters<typeof attemptAt>[0]>(
    "new",
    "minted",
    "dispatched",
    "ambiguous",
    "bought",
    "online",
  );

  test("I8: asks for no cancel, no settling and no end before absence is proven", () => {
    const behindTheProof = ["cancel-run", "read-run", "settle", "done"];
    fc.assert(
      fc.property(stages, fc.boolean(), fc.boolean(), seeds, (stage, first, jobEnded, all) => {
        const early: string[] = [];
        walk(scopeOf(attemptAt(stage), { jobEnded }), first, all, (move) => {
          if (move.teardown.provenAt === null && behindTheProof.includes(taskOf(move))) early.push(taskOf(move));
        });
        expect(early).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });

  test("I2: proven means DELETE answered, GET gone and two lists without the pod after that", () => {
    let proofs = 0;
    fc.assert(
      fc.property(fc.boolean(), seeds, (first, all) => {
        const unfounded: Teardown[] = [];
        walk(scopeOf(attemptAt("online")), first, all, ({ teardown }, before) => {
          if (teardown.provenAt === null || before === null || before.provenAt !== null) return;
          proofs += 1;
          const { deletedAt, getGone, listsAbsent, lastListAt } = teardown;
          const lists =
            listsAbsent >= 2 && deletedAt !== null && (lastListAt ?? 0) - deletedAt >= LIMITS.absenceSpacing;
          if (!getGone || !lists) unfounded.push(teardown);
        });
        expect(unfounded).toEqual([]);
      }),
      { numRuns: 400 },
    );
    // The property says something only if proofs happen.
    expect(proofs).toBeGreaterThan(50);
  });

  test("what is proven stays proven, and no task is ever due in the past", () => {
    fc.assert(
      fc.property(stages, fc.boolean(), seeds, (stage, first, all) => {
        const wrong: string[] = [];
        let proven: number | null = null;
        walk(scopeOf(attemptAt(stage), { run: RUN }), first, all, (move) => {
          if (proven !== null && move.teardown.provenAt !== proven) wrong.push("the proof was taken back");
          proven = move.teardown.provenAt;
          if (move.kind === "task" && move.dueAt < T0) wrong.push(`${move.task.kind} is due in the past`);
        });
        expect(wrong).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
