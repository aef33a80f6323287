/** The reaper and the runs that pods name: what GitHub says where a gate cannot, within the requests of one tick. */
import { describe, expect, it } from "vitest";
import { reap } from "../../cron/reap.ts";
import { tidyRegister } from "../../cron/tidy-register.ts";
import { readRun } from "../../cron/read-run.ts";
import type { CronGitHub, CronPorts, ReapBudget } from "../../cron/ports.ts";
import type { WakeStatus } from "../../cron/wake-gates.ts";
import type { Observations } from "../../durable-objects/account/sweep-memory.ts";
import type { PodStanding } from "../../durable-objects/gate/standing.ts";
import { DEFAULT_REAP_LIMITS, type RunView } from "../../shared/lifecycle/reap.ts";
import { err, ok } from "../../shared/result.ts";
import type { RunPodFailure } from "../../shared/runpod/failure.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;
const REFUSED: RunPodFailure = {
  reason: "unreadable",
  operation: "deletePod",
  status: 400,
  requestId: null,
  retryAfterMs: null,
  windows: [],
  details: [],
};

/** GitHub's ids are digits: a pod's name and its run's number can be told from each other. */
const runOf = (podId: string): string =>
  `1${Array.from(podId, (char) => String(char.charCodeAt(0)).padStart(3, "0")).join("")}`;
const podOf = (runId: string): string => String.fromCharCode(...(runId.slice(1).match(/.{3}/g) ?? []).map(Number));

class Fleet {
  now = T0;
  pods: Pod[] = [];
  /** What its gate says of a pod; "down": the gate does not answer at all. */
  gate: PodStanding["kind"] | "down" = "down";
  runs: Record<string, RunView> = {};
  undeletable = new Set<string>();
  budget: ReapBudget | undefined;
  observations: Observations = {};
  cursor: string | null = null;
  readonly read: string[] = [];
  readonly deleted: string[] = [];
  readonly tried: string[] = [];

  add(id: string, ageMs = 10 * MINUTE): void {
    const tags = {
      deployment: "testing",
      repositoryId: "101",
      requestId: "r1",
      attemptId: `a-${id}`,
      runId: runOf(id),
      keep: "false",
    };
    const createdAt = new Date(this.now - ageMs).toISOString();
    const parsed = parsePod({ id, name: podName(tags), status: "RUNNING", createdAt, env: ownershipTags(tags) });
    if (!parsed.ok) throw new Error(parsed.what);
    this.pods.push(parsed.pod);
  }

  run(id: string, more: Partial<Extract<RunView, { kind: "read" }>> = {}): void {
    this.runs[runOf(id)] = {
      kind: "read",
      runId: runOf(id),
      attempt: 1,
      status: "in_progress",
      workflowPath: ".github/workflows/gpu-gate-execute.yml",
      repository: "101",
      updatedAt: this.now - 10 * MINUTE,
      ...more,
    };
  }

  async sweep(minutes = 1) {
    this.read.length = 0;
    this.tried.length = 0;
    this.deleted.length = 0;
    const github = {
      readRun: (_repository: string, runId: string) => {
        this.read.push(podOf(runId));
        return Promise.resolve(this.runs[runId] ?? ({ kind: "unknown", what: "GitHub answered 503" } as const));
      },
    } as unknown as CronGitHub;
    const ports: CronPorts = {
      deployment: "testing",
      allowedRepositories: new Set(["101"]),
      gate: () => ({
        tick: () => Promise.resolve({ overdue: 0, open: 0, pods: [] }),
        podStandings: (questions) => {
          const { gate } = this;
          if (gate === "down") return Promise.reject(new Error("gate down"));
          return Promise.resolve(questions.map(() => ({ kind: gate, since: null })));
        },
        adoptStray: (podId) => {
          this.tried.push(podId);
          this.deleted.push(podId);
          this.pods = this.pods.filter((pod) => pod.id !== podId);
          return Promise.resolve(true);
        },
        podsRemoved: (removed) =>
          this.gate === "down"
            ? Promise.reject(new Error("gate down"))
            : Promise.resolve(removed.map((one) => one.podId)),
      }),
      account: {
        registered: () => Promise.resolve([]),
        listPods: () => Promise.resolve({ ok: true, value: { startedAt: this.now, complete: true, pods: this.pods } }),
        beginSweep: () => Promise.resolve({ kind: "go", observations: this.observations, cursor: this.cursor }),
        owe: () => Promise.resolve(true),
        endSweep: (observations, cursor) => {
          this.observations = observations;
          this.cursor = cursor;
          return Promise.resolve([]);
        },
      },
      runpod: {
        listPods: () => Promise.resolve(err(REFUSED)),
        deletePod: (podId) => {
          this.tried.push(podId);
          if (this.undeletable.has(podId)) return Promise.resolve({ kind: "failure", failure: REFUSED });
          this.deleted.push(podId);
          this.pods = this.pods.filter((pod) => pod.id !== podId);
          return Promise.resolve({ kind: "deleted" });
        },
      },
      board: { read: () => Promise.resolve(ok(null)), write: () => Promise.resolve(ok("stored")) } as never,
      github,
      limits: DEFAULT_REAP_LIMITS,
      ...(this.budget === undefined ? {} : { budget: this.budget }),
      clock: { now: () => this.now },
      log: () => undefined,
    };
    const status = await reap(ports, []);
    this.now += minutes * MINUTE;
    return { status, ports };
  }
}

describe("a pod whose gate does not answer", () => {
  it("goes when its run has been completed for five minutes, and not before", async () => {
    const fleet = new Fleet();
    fleet.add("p");
    fleet.run("p", { status: "completed", updatedAt: T0 - 4 * MINUTE });
    await fleet.sweep();
    expect(fleet.deleted).toEqual([]);
    const { status } = await fleet.sweep();
    expect(status.reaped).toEqual([{ podId: "p", repositoryId: "101", reason: "completed", how: "deleted" }]);
  });

  it("goes when a later attempt of its run has begun: ours have one", async () => {
    const fleet = new Fleet();
    fleet.add("p");
    fleet.run("p", { attempt: 2 });
    const { status } = await fleet.sweep();
    expect(status.reaped).toMatchObject([{ podId: "p", reason: "superseded" }]);
  });

  it("goes when GitHub twice, a cycle apart, has no such run", async () => {
    const fleet = new Fleet();
    fleet.add("p");
    fleet.runs[runOf("p")] = { kind: "gone" };
    await fleet.sweep();
    expect(fleet.deleted).toEqual([]);
    const { status } = await fleet.sweep();
    expect(status.reaped).toMatchObject([{ podId: "p", reason: "run-gone" }]);
  });

  it("I11: stays while its run works, and while nobody can say", async () => {
    const fleet = new Fleet();
    fleet.add("at-work");
    fleet.run("at-work");
    fleet.add("unread");
    await fleet.sweep();
    const { status } = await fleet.sweep();
    expect(fleet.deleted).toEqual([]);
    expect(status.problems.join()).toContain("Pod unread is left alone");
    expect(status.problems.join()).not.toContain("Pod at-work");
  });
});

describe("a pod whose gate answers", () => {
  it("is left to it while its run cannot be read, and while it works", async () => {
    const fleet = new Fleet();
    fleet.gate = "current";
    fleet.add("p");
    fleet.add("q");
    fleet.run("q");
    fleet.runs[runOf("p")] = { kind: "unknown", what: "503" };
    const { status } = await fleet.sweep();
    expect(status.problems).toEqual([]);
    expect(fleet.deleted).toEqual([]);
  });

  it("N59: goes although the gate holds it, when its run has been over for five minutes", async () => {
    const fleet = new Fleet();
    fleet.gate = "current";
    fleet.add("p");
    fleet.run("p", { status: "completed" });
    const { status } = await fleet.sweep();
    expect(status.reaped).toMatchObject([{ reason: "completed", how: "deleted" }]);
  });

  it("is never asked about at GitHub when it goes anyway", async () => {
    const fleet = new Fleet();
    fleet.gate = "closed";
    fleet.add("p");
    await fleet.sweep();
    expect(fleet.deleted).toEqual(["p"]);
    expect(fleet.read).toEqual([]);
  });
});

describe("a thousand pods", () => {
  const ids = Array.from({ length: 1_000 }, (_, index) => `p${String(index).padStart(4, "0")}`);

  it("are looked up within the budget, everyone in turn", async () => {
    const fleet = new Fleet();
    fleet.budget = { lookups: 20, removals: 10 };
    for (const id of ids) {
      fleet.add(id, 0);
      fleet.run(id);
    }
    const seen: string[] = [];
    for (let tick = 0; tick < 50; tick += 1) {
      await fleet.sweep(0.01);
      expect(fleet.read).toHaveLength(20);
      seen.push(...fleet.read);
    }
    expect(seen).toEqual(ids);
    await fleet.sweep();
    expect(fleet.read[0]).toBe(ids[0]);
  });

  it("do not hide behind a few that cannot be deleted", async () => {
    const fleet = new Fleet();
    fleet.budget = { lookups: 20, removals: 10 };
    for (const id of ids.slice(0, 30)) fleet.add(id, 3 * 60 * MINUTE);
    for (const id of ids.slice(0, 12)) fleet.undeletable.add(id);
    const gone = new Set<string>();
    for (let tick = 0; tick < 4; tick += 1) {
      await fleet.sweep();
      expect(fleet.tried.length).toBeLessThanOrEqual(10);
      for (const id of fleet.deleted) gone.add(id);
    }
    expect([...gone].toSorted()).toEqual(ids.slice(12, 30));
  });

  it("keep their suspicions while they wait for their turn", async () => {
    const fleet = new Fleet();
    fleet.budget = { lookups: 1, removals: 10 };
    for (const id of ["a", "b", "c"]) {
      fleet.add(id);
      fleet.runs[runOf(id)] = { kind: "gone" };
    }
    for (let tick = 0; tick < 3; tick += 1) await fleet.sweep();
    expect(Object.keys(fleet.observations).toSorted()).toEqual(["a", "b", "c"]);
    const gone: string[] = [];
    for (let tick = 0; tick < 3; tick += 1) {
      await fleet.sweep();
      gone.push(...fleet.deleted);
    }
    expect(gone.toSorted()).toEqual(["a", "b", "c"]);
  });
});

describe("reading a run", () => {
  const known = () => Promise.resolve([{ id: "101", owner: "octo", name: "lab" }]);
  const client = (answer: unknown) => () => ({ getRun: () => Promise.resolve(answer) }) as never;

  it("is gone at 404, unknown at everything else", async () => {
    expect(await readRun(known, client(err({ reason: "not-found" })), "101", "7")).toEqual({ kind: "gone" });
    const failure = err({ reason: "server", status: 502 });
    expect((await readRun(known, client(failure), "101", "7")).kind).toBe("unknown");
    expect((await readRun(() => Promise.reject(new Error("down")), client(failure), "101", "7")).kind).toBe("unknown");
  });

  it("is unknown in a repository whose name nobody has", async () => {
    expect((await readRun(known, client(err({ reason: "not-found" })), "999", "7")).kind).toBe("unknown");
  });
});

describe("the account's register", () => {
  const wake = (visit: Partial<WakeStatus["visits"][number]>): WakeStatus => ({
    visits: [{ id: "101", answered: true, open: 0, overdue: 0, pods: [], ...visit }],
    registered: ["101"],
    problems: [],
    notices: [],
  });

  async function tidied(visit: Partial<WakeStatus["visits"][number]>, withPod = false, registeredAt = 0) {
    const fleet = new Fleet();
    fleet.gate = "current";
    if (withPod) {
      fleet.add("p");
      fleet.run("p");
    }
    const { status, ports } = await fleet.sweep();
    const account = {
      ...ports.account,
      unregister: (_id: string, before: number) => Promise.resolve(registeredAt < before),
    };
    return tidyRegister({ ...ports, account }, wake(visit), status, T0);
  }

  it("loses a repository that has nothing open and no pod", async () => {
    expect(await tidied({})).toEqual(["101"]);
  });

  it.each([
    ["an open request", { open: 1 }],
    ["a pod that is not proven gone", { pods: ["p9"] }],
    ["a gate that did not answer", { answered: false }],
  ] as const)("keeps one with %s", async (_, visit) => {
    expect(await tidied(visit)).toEqual([]);
  });

  it("keeps one that a pod names, and one that was registered a moment ago", async () => {
    expect(await tidied({}, true)).toEqual([]);
    expect(await tidied({}, false, T0 - MINUTE)).toEqual([]);
  });
});
