import { describe, expect, it } from "vitest";
import {
  DEFAULT_REAP_LIMITS,
  decideReap,
  reapReasonCode,
  type GateView,
  type ReapInput,
  type RunView,
} from "../../shared/lifecycle/reap.ts";
import { parseRepositoryConfig } from "../../shared/config/load.ts";
import { runView } from "../../shared/lifecycle/run-view.ts";
import { REASONS } from "../../shared/audit/reasons.ts";

const NOW = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const LIMITS = DEFAULT_REAP_LIMITS;

const OWNER = { runId: "123", attempt: 2, workflowPath: ".github/workflows/execute.yml", repository: "101" };
const RUN: Extract<RunView, { kind: "read" }> = {
  kind: "read",
  runId: "123",
  attempt: 2,
  status: "in_progress",
  workflowPath: ".github/workflows/execute.yml",
  repository: "101",
  updatedAt: NOW - 10 * MINUTE,
};

/** An own pod, ten minutes old, whose run is at work and whose gate could not be asked: it is kept. */
function decide(more: Partial<ReapInput> = {}) {
  return decideReap({
    own: true,
    createdAt: NOW - 10 * MINUTE,
    ownCreatedAt: null,
    owner: OWNER,
    run: RUN,
    gate: { kind: "unreachable" },
    keepAsked: false,
    retention: { kind: "not-read" },
    observed: null,
    now: NOW,
    limits: LIMITS,
    ...more,
  });
}

const completed = (agoMs: number): RunView => ({ ...RUN, status: "completed", updatedAt: NOW - agoMs });
const unknown: RunView = { kind: "unknown", what: "GitHub answered 503" };
const gates: readonly GateView[] = [
  { kind: "live" },
  { kind: "closed-attempt" },
  { kind: "unknown-pod" },
  { kind: "unreachable" },
];

describe("whose pod it is", () => {
  it("a pod not proven ours is never touched, however old, whatever anybody says", () => {
    for (const gate of gates) {
      for (const run of [RUN, completed(HOUR), { ...RUN, attempt: 9 }, unknown, { kind: "gone" } as const]) {
        expect(decide({ own: false, createdAt: null, gate, run })).toEqual({ kind: "keep", why: "not-own" });
      }
    }
  });
});

describe("the owner's end", () => {
  it.each([
    ["at work", RUN, { kind: "keep", why: "active" }],
    ["queued", { ...RUN, status: "queued" }, { kind: "keep", why: "active" }],
    ["N88: at a newer attempt", { ...RUN, attempt: 3 }, { kind: "reap", reason: "superseded" }],
    ["completed for 300 s", completed(300_000), { kind: "reap", reason: "completed" }],
    ["completed for less", completed(299_999), { kind: "keep", why: "grace" }],
    [
      "completed at a time nobody can read",
      { ...RUN, status: "completed", updatedAt: null },
      { kind: "reap", reason: "completed" },
    ],
  ] as const)("a run %s", (_, run, decision) => {
    expect(decide({ run })).toEqual(decision);
  });

  it.each([
    ["of another id", { ...RUN, runId: "124" }],
    ["of another workflow", { ...RUN, workflowPath: ".github/workflows/other.yml" }],
    ["of another repository", { ...RUN, repository: "202" }],
    ["at an older attempt than the pod's", { ...RUN, attempt: 1 }],
    ["in a state nobody knows", { ...RUN, status: "paused" }],
    ["that could not be read", unknown],
  ] as const)("I11: a run %s is an error and leaves a young pod alone", (_, run) => {
    expect(decide({ run }).kind).toBe("error");
  });
});

describe("a run that is gone", () => {
  const gone: RunView = { kind: "gone" };

  it("is only remembered at first, and reaps when it is still gone a cycle later", () => {
    expect(decide({ run: gone })).toEqual({ kind: "observe", suspicion: "run-gone", firstSeenAt: NOW });
    const seen = (agoMs: number) => ({ suspicion: "run-gone", firstSeenAt: NOW - agoMs }) as const;
    expect(decide({ run: gone, observed: seen(MINUTE) })).toEqual({ kind: "reap", reason: "run-gone" });
  });

  it("N30: two looks within one cycle are one look", () => {
    const observed = { suspicion: "run-gone", firstSeenAt: NOW - LIMITS.observationGapMs + 1 } as const;
    expect(decide({ run: gone, observed }).kind).toBe("observe");
  });

  it("another suspicion in between starts the count anew", () => {
    const observed = { suspicion: "unknown-pod", firstSeenAt: NOW - HOUR } as const;
    expect(decide({ run: gone, observed })).toMatchObject({ kind: "observe", firstSeenAt: NOW });
  });

  it("never reaps under a live request", () => {
    const observed = { suspicion: "run-gone", firstSeenAt: NOW - HOUR } as const;
    expect(decide({ run: gone, gate: { kind: "live" }, observed })).toEqual({ kind: "keep", why: "live-request" });
  });
});

describe("what the gate says", () => {
  it("a pod under a closed attempt goes at first sight, whatever its run does", () => {
    for (const run of [RUN, unknown, { kind: "gone" } as const]) {
      expect(decide({ run, gate: { kind: "closed-attempt" } })).toEqual({ kind: "reap", reason: "late-pod" });
    }
  });

  it("a pod no gate knows goes after two looks, also under an active run", () => {
    const gate = { kind: "unknown-pod" } as const;
    expect(decide({ gate })).toMatchObject({ kind: "observe", suspicion: "unknown-pod" });
    const observed = { suspicion: "unknown-pod", firstSeenAt: NOW - MINUTE } as const;
    expect(decide({ gate, observed })).toEqual({ kind: "reap", reason: "unknown-pod" });
  });

  it("a gate that does not answer is not a gate that knows nothing", () => {
    const observed = { suspicion: "unknown-pod", firstSeenAt: NOW - HOUR } as const;
    expect(decide({ observed })).toEqual({ kind: "keep", why: "active" });
    expect(decide({ owner: null, run: unknown }).kind).toBe("error");
  });
});

describe("I3: the backstop", () => {
  const old = NOW - 2 * HOUR;

  it.each(gates.map((gate) => [gate.kind, gate] as const))("needs no word from a gate that is %s", (_, gate) => {
    for (const run of [RUN, completed(0), unknown, { kind: "gone" } as const]) {
      expect(decide({ createdAt: old, gate, run }).kind).toBe("reap");
    }
  });

  it("is two hours from creation, to the millisecond", () => {
    expect(decide({ createdAt: old + 1 })).toEqual({ kind: "keep", why: "active" });
    expect(decide({ createdAt: old })).toEqual({ kind: "reap", reason: "backstop" });
  });

  it("the owner's reason is told where there is one", () => {
    expect(decide({ createdAt: old, run: { ...RUN, attempt: 3 } })).toEqual({ kind: "reap", reason: "superseded" });
  });

  it("N147: our own time stands in for one that cannot be read; without any the pod is old", () => {
    expect(decide({ createdAt: null, ownCreatedAt: NOW - MINUTE }).kind).toBe("keep");
    expect(decide({ createdAt: null, ownCreatedAt: old })).toEqual({ kind: "reap", reason: "backstop" });
    expect(decide({ createdAt: null, ownCreatedAt: null })).toEqual({ kind: "reap", reason: "backstop" });
  });

  it("N22: the earlier of two times counts, so a restart that moves the provider's gains nothing", () => {
    expect(decide({ createdAt: NOW - MINUTE, ownCreatedAt: old }).kind).toBe("reap");
    expect(decide({ createdAt: old, ownCreatedAt: NOW - MINUTE }).kind).toBe("reap");
  });
});

describe("retention", () => {
  const due = { run: completed(HOUR), keepAsked: true } as const;

  it("N11: a flag exempts nothing: it only asks to look for a record", () => {
    expect(decide(due)).toEqual({ kind: "read-retention", reason: "completed" });
    expect(decide({ ...due, retention: { kind: "none" } })).toEqual({ kind: "reap", reason: "completed" });
  });

  it("no record is read for a pod that is not due, nor for one that nobody asked to keep", () => {
    expect(decide({ keepAsked: true })).toEqual({ kind: "keep", why: "active" });
    expect(decide({ run: completed(HOUR) })).toEqual({ kind: "reap", reason: "completed" });
  });

  it("a record keeps the pod until its end, and never beyond three hours from creation", () => {
    const until = (ms: number) => ({ kind: "until", until: NOW + ms }) as const;
    expect(decide({ ...due, retention: until(1) })).toEqual({ kind: "keep", why: "retained" });
    expect(decide({ ...due, retention: until(0) }).kind).toBe("reap");
    expect(decide({ ...due, createdAt: NOW - 3 * HOUR + 1, retention: until(HOUR) }).kind).toBe("keep");
    expect(decide({ ...due, createdAt: NOW - 3 * HOUR, retention: until(HOUR) }).kind).toBe("reap");
    expect(decide({ ...due, createdAt: null, retention: until(HOUR) }).kind).toBe("reap");
  });

  it("one that cannot be read keeps a young pod, reported, and not one at the backstop", () => {
    const retention = { kind: "unreadable", what: "503" } as const;
    expect(decide({ ...due, retention })).toEqual({ kind: "error", what: "503" });
    expect(decide({ ...due, createdAt: NOW - 2 * HOUR, retention }).kind).toBe("reap");
  });
});

it("every reap reason has a code of the common list", () => {
  for (const reason of ["superseded", "completed", "run-gone", "unknown-pod", "late-pod", "backstop"] as const) {
    expect(REASONS[reapReasonCode(reason)].class).toBe("reap");
  }
});

it("every longest life that a configuration may set is spared to its end", () => {
  const limit = 10_800;
  expect(parseRepositoryConfig(`version: 1\nretention: {duration: 60, max_retention: ${limit + 1}}\n`).ok).toBe(false);
  const config = parseRepositoryConfig(`version: 1\nretention: {duration: 60, max_retention: ${limit}}\n`);
  const lifeMs = config.ok ? config.value.retention.max_retention * 1000 : 0;
  const born = NOW - lifeMs + MINUTE;
  const kept = { createdAt: born, keepAsked: true, retention: { kind: "until", until: born + lifeMs } } as const;
  expect(decide(kept)).toEqual({ kind: "keep", why: "retained" });
  expect(decide({ ...kept, createdAt: NOW - lifeMs })).toMatchObject({ kind: "reap" });
});

describe("reading a run", () => {
  const body = {
    id: 123,
    run_attempt: 1,
    status: "completed",
    path: ".github/workflows/execute.yml@main",
    repository: { id: 101, full_name: "o/r" },
    updated_at: "2026-11-30T11:50:00Z",
  };

  it("takes the path without its ref, ids as text, the repository by id or by name", () => {
    expect(runView(200, body)).toEqual({ ...RUN, attempt: 1, status: "completed" });
    expect(runView(200, body, "name")).toMatchObject({ repository: "o/r" });
  });

  it("404 is gone; every other refusal and every other body is unknown", () => {
    expect(runView(404, body)).toEqual({ kind: "gone" });
    for (const [status, value] of [
      [403, body],
      [500, body],
      [200, null],
      [200, { ...body, run_attempt: "1" }],
      [200, { ...body, repository: null }],
    ] as const) {
      expect(runView(status, value).kind).toBe("unknown");
    }
  });
});
