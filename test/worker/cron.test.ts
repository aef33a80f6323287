import { describe, expect, it } from "vitest";
import { runCron } from "../../cron/index.ts";
import type { CronAccount, CronGate, CronPorts } from "../../cron/ports.ts";
import type { Observations } from "../../durable-objects/account/sweep-memory.ts";
import type { Board } from "../../durable-objects/board-client.ts";
import type { PodStanding } from "../../durable-objects/gate/standing.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { err, ok } from "../../shared/result.ts";
import type { RunPodFailure } from "../../shared/runpod/failure.ts";
import { parsePod, type Pod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { T0 } from "./ports.ts";

const FAILURE: RunPodFailure = {
  reason: "network",
  operation: "listPods",
  status: null,
  requestId: null,
  retryAfterMs: null,
  windows: [],
  details: [],
};

interface PodFacts {
  readonly deployment?: string;
  readonly repositoryId?: string;
  readonly attemptId?: string;
  readonly name?: string;
  readonly createdAt?: number | null;
  readonly tags?: Readonly<Record<string, string>>;
  readonly status?: string;
}

function pod(id: string, facts: PodFacts = {}): Pod {
  const {
    deployment = "testing",
    repositoryId = "101",
    attemptId = `attempt-of-${id}`,
    createdAt = T0 - 60_000,
  } = facts;
  const parsed = parsePod({
    id,
    name: facts.name ?? podName({ deployment, repositoryId, attemptId }),
    status: facts.status ?? "RUNNING",
    createdAt: createdAt === null ? "not a time" : new Date(createdAt).toISOString(),
    env:
      facts.tags ??
      ownershipTags({ deployment, repositoryId, requestId: "r1", attemptId, runId: "900", keep: "false" }),
  });
  if (!parsed.ok) throw new Error(parsed.what);
  return parsed.pod;
}

/** Two repositories, an account and RunPod, as cron sees them; `fault` breaks what it names. */
class World implements CronPorts {
  readonly deployment = "testing";
  readonly allowedRepositories = new Set(["101"]);
  readonly limits = DEFAULT_REAP_LIMITS;
  now = T0;
  readonly clock = { now: () => this.now };
  readonly log = () => undefined;
  pods: Pod[] = [];
  /** What the gate of every repository says about a pod; nothing: unknown. */
  standings: Record<string, PodStanding["kind"]> = {};
  since: Record<string, number> = {};
  /** Pods in the open ledger lines of repository 101. */
  ledger: string[] = [];
  register: string[] = [];
  observations: Observations = {};
  busy = false;
  readonly fault = new Set<
    "gates" | "account" | "runpod-list" | "runpod-delete" | "board" | "adopt" | "refuse-adopt"
  >();
  readonly did: string[] = [];
  written: Board | null = null;

  readonly gate = (id: string): CronGate => ({
    tick: async () => {
      this.did.push(`tick ${id}`);
      this.#fail("gates");
      return { overdue: 0, open: 1, pods: id === "101" ? this.ledger : [] };
    },
    podStandings: async (questions) => {
      this.#fail("gates");
      return questions.map(({ podId }) => ({
        kind: this.standings[podId] ?? "unknown",
        since: this.since[podId] ?? null,
      }));
    },
    adoptStray: async (podId, why) => {
      this.#fail("gates");
      this.#fail("adopt");
      if (this.fault.has("refuse-adopt")) return false;
      this.did.push(`adopt ${podId} at ${id}: ${why}`);
      this.standings[podId] = "current";
      return true;
    },
    podsRemoved: async (removed) => {
      this.#fail("gates");
      return removed.map((one) => one.podId);
    },
  });

  readonly account: CronAccount = {
    registered: async () => {
      this.#fail("account");
      return this.register;
    },
    listPods: async () => {
      this.#fail("account");
      if (this.fault.has("runpod-list")) return { ok: false, why: "RunPod's list of pods: network" };
      return { ok: true, value: { startedAt: this.now, complete: true, pods: this.pods } };
    },
    beginSweep: async () => {
      this.#fail("account");
      return this.busy ? { kind: "busy", since: this.now } : { kind: "go", observations: this.observations };
    },
    owe: async () => {
      this.#fail("account");
      return true;
    },
    endSweep: async (observations) => {
      this.#fail("account");
      this.observations = observations;
      return [];
    },
  };

  readonly runpod: CronPorts["runpod"] = {
    listPods: async () => {
      this.did.push("list at RunPod");
      if (this.fault.has("runpod-list")) return err(FAILURE);
      return ok({ pods: this.pods, complete: true, startedAtMs: this.now, pages: 1, malformed: [], failure: null });
    },
    deletePod: async (podId) => {
      if (this.fault.has("runpod-delete")) return { kind: "failure", failure: FAILURE };
      this.did.push(`DELETE ${podId}`);
      this.pods = this.pods.filter((one) => one.id !== podId);
      return { kind: "deleted" };
    },
  };

  readonly board: CronPorts["board"] = {
    read: async () => ok(this.written),
    write: async (board) => {
      if (this.fault.has("board")) return err({ reason: "no-answer", message: "the fleet board did not answer" });
      this.written = board;
      return ok(null);
    },
  };

  /** One tick; gives what was done to pods in it. */
  async tick(): Promise<string[]> {
    this.did.length = 0;
    await runCron(this);
    return this.did.filter((one) => /^(?:adopt|DELETE)/.test(one));
  }

  #fail(what: "gates" | "account" | "adopt"): void {
    if (this.fault.has(what)) throw new Error(`${what} down`);
  }
}

describe("a tick", () => {
  it("visits allow-listed and registered gates, each once", async () => {
    const world = new World();
    world.register = ["101", "205"];
    await world.tick();
    expect(world.did).toEqual(["tick 101", "tick 205"]);
    expect(world.written?.gates.map((gate) => gate.id)).toEqual(["101", "205"]);
  });

  it("a register that cannot be read does not keep the allow-listed gates asleep", async () => {
    const world = new World();
    world.fault.add("account");
    await world.tick();
    expect(world.did).toContain("tick 101");
  });

  it("no duty's failure stops the others, and the board says which failed", async () => {
    const world = new World();
    world.fault.add("gates");
    world.pods = [pod("old", { createdAt: T0 - 7_200_000 })];
    expect(await world.tick()).toEqual(["DELETE old"]);
    expect(world.written?.gates).toEqual([{ id: "101", open: 0, overdue: 0, answered: false }]);
    expect(world.written?.problems.join(" ")).toContain("The gate of repository 101 did not answer: gates down.");
  });

  it("a board that cannot be written is a failed duty, nothing more", async () => {
    const world = new World();
    world.fault.add("board");
    const report = await runCron(world);
    expect(report?.duties.map(({ name, ok: good }) => [name, good])).toEqual([
      ["wake-gates", true],
      ["reap", true],
      ["board", false],
    ]);
  });

  it("without configuration nothing happens", async () => {
    expect(await runCron(null)).toBeNull();
  });
});

describe("the reaper in a tick", () => {
  it("leaves the pod alone that an open request holds", async () => {
    const world = new World();
    world.pods = [pod("p1")];
    world.standings = { p1: "current" };
    expect(await world.tick()).toEqual([]);
    world.now += 60_000;
    expect(await world.tick()).toEqual([]);
    expect(world.written?.pods).toMatchObject({ listed: 1, own: 1, suspected: 0, handedOver: 0, deleted: 0 });
  });

  it("hands a closed attempt's late pod to its gate at first sight", async () => {
    const world = new World();
    world.pods = [pod("late")];
    world.standings = { late: "closed" };
    expect(await world.tick()).toEqual(["adopt late at 101: reap-late-pod"]);
    world.now += 60_000;
    expect(await world.tick()).toEqual([]);
  });

  it("reaps a pod nobody knows at the second sight, a cycle later, and not before", async () => {
    const world = new World();
    world.pods = [pod("orphan")];
    expect(await world.tick()).toEqual([]);
    expect(world.written?.pods?.suspected).toBe(1);
    world.now += 10_000;
    expect(await world.tick()).toEqual([]);
    world.now += 50_000;
    expect(await world.tick()).toEqual(["adopt orphan at 101: reap-unknown-pod"]);
  });

  it("a suspicion that was cleared begins anew", async () => {
    const world = new World();
    world.pods = [pod("p1")];
    await world.tick();
    world.standings = { p1: "current" };
    world.now += 60_000;
    await world.tick();
    world.standings = {};
    world.now += 60_000;
    expect(await world.tick()).toEqual([]);
  });

  it("asks the gate a pod names even when that repository is on no list", async () => {
    const world = new World();
    world.pods = [pod("p1", { repositoryId: "999" })];
    world.standings = { p1: "closed" };
    expect(await world.tick()).toEqual(["adopt p1 at 999: reap-late-pod"]);
  });

  it.each([
    ["another deployment's pod", pod("x", { deployment: "theirs", createdAt: 0 }), { otherDeployments: 1 }],
    ["somebody's pod without our tags", pod("x", { name: "jupyter", tags: {}, createdAt: 0 }), { foreign: 1 }],
    ["a pod with our kind of name and no tags", pod("x", { name: "gpu-gate-testing-a1", tags: {} }), { unclear: 1 }],
    ["a pod whose tags and name disagree", pod("x", { name: "gpu-gate-testing-other" }), { unclear: 1 }],
  ])("never touches %s, however old, and counts it", async (_what, stranger, counts) => {
    const world = new World();
    world.pods = [stranger];
    await world.tick();
    world.now += 8_000_000;
    expect(await world.tick()).toEqual([]);
    expect(world.written?.pods).toMatchObject({ listed: 1, own: 0, ...counts });
  });

  it("a pod in a gate's ledger is ours although its name and tags were changed", async () => {
    const world = new World();
    world.ledger = ["renamed"];
    world.pods = [pod("renamed", { name: "jupyter", tags: {} })];
    world.standings = { renamed: "closed" };
    expect(await world.tick()).toEqual(["adopt renamed at 101: reap-late-pod"]);
  });

  it("does not count pods that are gone already", async () => {
    const world = new World();
    world.pods = [pod("gone", { status: "TERMINATED" })];
    world.standings = { gone: "closed" };
    expect(await world.tick()).toEqual([]);
    expect(world.written?.pods?.listed).toBe(0);
  });
});

describe("the backstop", () => {
  it("deletes a pod that its own request still holds, from here", async () => {
    const world = new World();
    world.pods = [pod("p1", { createdAt: T0 - 7_200_000 })];
    world.standings = { p1: "current" };
    expect(await world.tick()).toEqual(["DELETE p1"]);
  });

  it("counts from our own create time when RunPod's is later, and an unreadable one is old", async () => {
    const world = new World();
    world.pods = [pod("restarted"), pod("unreadable", { createdAt: null })];
    world.standings = { restarted: "current", unreadable: "current" };
    world.since = { restarted: T0 - 7_200_000 };
    expect(await world.tick()).toEqual(["DELETE restarted", "DELETE unreadable"]);
  });

  it("needs no gate, no account and no board", async () => {
    const world = new World();
    for (const part of ["gates", "account", "board"] as const) world.fault.add(part);
    world.pods = [pod("p1", { createdAt: T0 - 7_200_000 }), pod("young")];
    expect(await world.tick()).toEqual(["DELETE p1"]);
    expect(world.did).toContain("list at RunPod");
  });

  it("a pod whose gate is down is left alone while it is young, and that is said", async () => {
    const world = new World();
    world.fault.add("gates");
    world.pods = [pod("young")];
    for (let minute = 0; minute < 3; minute += 1) {
      expect(await world.tick()).toEqual([]);
      world.now += 60_000;
    }
    expect(world.written?.problems.join(" ")).toContain("Pod young is left alone");
  });

  it("a gate that will not take its stray does not save it", async () => {
    const world = new World();
    world.fault.add("refuse-adopt");
    world.pods = [pod("late")];
    world.standings = { late: "closed" };
    expect(await world.tick()).toEqual(["DELETE late"]);
  });

  it("a hand-over that is lost is made again the next minute, so that the pod is booked; the backstop does not wait", async () => {
    const world = new World();
    world.fault.add("adopt");
    world.pods = [pod("late")];
    world.standings = { late: "closed" };
    expect(await world.tick()).toEqual([]);
    world.pods = [pod("late", { createdAt: world.now - 7_200_000 })];
    expect(await world.tick()).toEqual(["DELETE late"]);
    world.pods = [pod("late")];
    world.fault.delete("adopt");
    expect(await world.tick()).toEqual(["adopt late at 101: reap-late-pod"]);
  });

  it("a DELETE that RunPod refuses is said, and tried again at the next tick", async () => {
    const world = new World();
    world.fault.add("runpod-delete");
    world.pods = [pod("p1", { createdAt: 0 })];
    world.standings = { p1: "current" };
    expect(await world.tick()).toEqual([]);
    expect(world.written?.problems).toContain("RunPod did not delete pod p1: network.");
    world.fault.clear();
    expect(await world.tick()).toEqual(["DELETE p1"]);
  });
});

describe("sweeps beside each other", () => {
  it("while one is under way the next is skipped", async () => {
    const world = new World();
    world.busy = true;
    world.pods = [pod("p1", { createdAt: 0 })];
    expect(await world.tick()).toEqual([]);
    expect(world.written?.pods).toBeNull();
  });

  it("a list that cannot be read clears no suspicion", async () => {
    const world = new World();
    world.pods = [pod("orphan")];
    await world.tick();
    world.fault.add("runpod-list");
    world.now += 60_000;
    await world.tick();
    world.fault.clear();
    world.now += 60_000;
    expect(await world.tick()).toEqual(["adopt orphan at 101: reap-unknown-pod"]);
  });
});
