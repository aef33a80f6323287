/** N72: registrations of ours that stayed behind at GitHub go, nobody else's are touched, and what GitHub keeps is told. */
import { describe, expect, it } from "vitest";
import { wakeGates } from "../../cron/wake-gates.ts";
import { boardOf } from "../../cron/board.ts";
import type { CronPorts } from "../../cron/ports.ts";
import { Gate, type GateTick } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { configFrom } from "../../shared/config/load.ts";
import type { RunnerScope } from "../../shared/github/runners.ts";
import {
  LIST_EVERY_MS,
  ORDERS_A_ROUND,
  TOLD_AFTER_TRIES,
  UNHEARD_MS,
  UNREAD_MS,
} from "../../shared/lifecycle/left-runners.ts";
import { err, ok } from "../../shared/result.ts";
import { podName } from "../../shared/runpod/tags.ts";
import { attemptAt, requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 10, 30);
const ROUND = 300_000;
const DEPLOYMENT = "prod";
const REPOSITORY = { id: "101", owner: "acme", name: "tensors" };

interface Registered {
  readonly id: string;
  readonly name: string;
  status: string;
  busy: boolean;
}

const nameOf = (attemptId: string, deployment = DEPLOYMENT, repositoryId = REPOSITORY.id) =>
  podName({ deployment, repositoryId, attemptId });

const REFUSED = {
  missing: { reason: "not-found", status: 404, message: "Not Found" },
  suspended: { reason: "forbidden", status: 403, message: "This installation has been suspended" },
} as const;

/** A gate beside a GitHub that has these runners and no pull request. */
function world(scope: "repository" | "organization" = "repository") {
  let now = T0;
  const sql = nodeSql();
  const runners = new Map<string, Registered>();
  const asked: string[] = [];
  const backgrounds = new Set<boolean>();
  const answers = {
    pulls: "ok" as "ok" | "missing" | "suspended",
    list: "ok" as "ok" | "limited" | "missing",
    deletion: new Map<string, "busy" | "limited" | "forbidden">(),
  };
  let cut = Infinity;
  const limited = err({ reason: "rate-limited", retryAtMs: T0 + 3_600_000, scope: "primary" });
  const github = (at: RunnerScope, background: boolean) => ({
    listOpenPulls: () =>
      Promise.resolve(answers.pulls === "ok" ? ok({ items: [], complete: true }) : err(REFUSED[answers.pulls])),
    listRunners: () => {
      asked.push(`list ${at.kind}`);
      backgrounds.add(background);
      const items = [...runners.values()].map((one) => ({ ...one, labels: [], version: null }));
      if (answers.list === "missing") return Promise.resolve(err(REFUSED.missing));
      return Promise.resolve(answers.list === "ok" ? ok({ items, complete: true }) : limited);
    },
    getRunner: (id: string) => {
      asked.push(`look ${id}`);
      backgrounds.add(background);
      const one = runners.get(id);
      return Promise.resolve(one === undefined ? err(REFUSED.missing) : ok({ ...one, labels: [], version: null }));
    },
    deleteRunner: (id: string) => {
      asked.push(`delete ${id}`);
      backgrounds.add(background);
      cut -= 1;
      // The process dies here: nothing behind this call is ever done.
      if (cut < 0) return new Promise(() => undefined);
      const said = answers.deletion.get(id);
      if (said === "busy") return Promise.resolve(ok("busy"));
      if (said === "limited") return Promise.resolve(limited);
      if (said === "forbidden") return Promise.resolve(err({ reason: "forbidden", status: 403, message: "no" }));
      return Promise.resolve(ok(runners.delete(id) ? "deleted" : "gone"));
    },
  });
  const ports = {
    sql,
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
    account: new Proxy({}, { get: () => () => Promise.resolve({ ok: false, why: "cut" }) }),
    runpod: {},
    github: (_repository: unknown, _installation: unknown, at: RunnerScope, background = false) =>
      new Proxy(github(at, background), {
        get: (own, name) =>
          (Reflect.get(own, name) as unknown) ?? (() => Promise.resolve(err({ reason: "server", status: 500 }))),
      }),
    resolveImage: () => Promise.resolve({ ok: false, why: "cut" }),
    publicUrl: "",
    deployment: DEPLOYMENT,
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts;
  let gate = new Gate(ports);
  gate.store.rememberRepository(REPOSITORY, "77");
  /** The newest configuration has its runners there. */
  const runnersAt = (where: "repository" | "organization") => {
    const config = configFrom();
    gate.store.rememberConfig(where, { ...config, runner: { ...config.runner, scope: where } });
    gate.store.setMeta("last_config", where);
  };
  runnersAt(scope);

  /** An attempt of a request in this state; `unreadable`: the record of its request does not read. */
  function attempt(id: string, state: "closed" | "open" | "replaced" | "unreadable") {
    const requestId = id.replace(/-\d+$/, "");
    const held = attemptAt("bought", { id: state === "replaced" ? `${requestId}-99` : id });
    const change = { id: requestId, headSha: id.padEnd(40, "0"), prNumber: null } as const;
    gate.store.saveRequest(requestIn(states.executing({ attempt: { ...held, podName: nameOf(held.id) } }), change));
    if (state === "replaced") {
      sql.exec(
        `INSERT INTO attempts (id, request_id, number, pod_name, opened_at) VALUES (?, ?, 1, ?, ?)`,
        id,
        requestId,
        nameOf(id),
        now,
      );
    }
    if (state === "closed") gate.store.saveRequest(requestIn(states.concluded(), change));
    if (state === "unreadable") sql.exec("UPDATE requests SET record = '{}' WHERE id = ?", requestId);
    gate.store.forget();
  }

  return {
    sql,
    runners,
    asked,
    answers,
    backgrounds,
    attempt,
    register: (id: string, name: string, more: Partial<Registered> = {}) => {
      runners.set(id, { id, name, status: "offline", busy: false, ...more });
    },
    /** Cron's visit, and what becomes due by it. */
    round: async (passes = ROUND) => {
      now += passes;
      gate.tick();
      // Only the comparison with GitHub: requests would go on otherwise.
      sql.exec("UPDATE tasks SET due_at = ? WHERE lane <> 'reconcile'", now + 86_400_000);
      await gate.run();
    },
    dieAfterOrders: (count: number) => {
      cut = count;
    },
    restart: () => {
      cut = Infinity;
      gate = new Gate(ports);
    },
    runnersAt,
    told: () => gate.tick().notices ?? [],
    gate: () => gate,
  };
}

/** Cron's visit to these gates. */
function visited(gates: ReadonlyMap<string, () => GateTick>) {
  const gate = (id: string) => ({ tick: () => Promise.resolve(gates.get(id)?.()) });
  const account = { registered: () => Promise.resolve([]) };
  return wakeGates({ allowedRepositories: new Set(gates.keys()), account, gate } as unknown as CronPorts);
}

const closed = (count: number) => Array.from({ length: count }, (_, index) => `r${index + 1}-1`);

describe("registrations that stayed behind", () => {
  it.each(["repository", "organization"] as const)(
    "N72: at a %s, 40 offline ones of ours go, within the bound of a round, and a foreign one stays",
    async (scope) => {
      const { attempt, register, runners, asked, backgrounds, round, sql } = world(scope);
      for (const [index, id] of closed(40).entries()) {
        attempt(id, "closed");
        register(String(index + 1), nameOf(id));
      }
      register("900", "build-machine-7");
      await round();
      expect(asked.filter((call) => call.startsWith("delete"))).toHaveLength(ORDERS_A_ROUND);
      await round();
      await round();
      expect([...runners.values()].map((one) => one.name)).toEqual(["build-machine-7"]);
      // One list for all of it, at the place where this configuration has its runners; all of it gives way to others.
      expect(asked.filter((call) => call.startsWith("list"))).toEqual([`list ${scope}`]);
      expect([...backgrounds]).toEqual([true]);
      expect(sql.exec("SELECT act FROM audit WHERE act = 'runner.left-removed'")).toHaveLength(40);
    },
  );

  it.each([
    ["of another deployment", nameOf("r1-1", "staging")],
    ["of another repository of this deployment", nameOf("r1-1", DEPLOYMENT, "102")],
    ["whose name only begins like ours", `${nameOf("r1-1")}-kept`],
    ["whose attempt we would never number so", nameOf("job-1")],
  ])("is left alone %s", async (_what, name) => {
    const { attempt, register, runners, round } = world();
    attempt("r1-1", "closed");
    register("1", name);
    for (let passed = 0; passed <= UNHEARD_MS + 3_600_000; passed += ROUND) await round();
    expect(runners.size).toBe(1);
  });

  it("is left alone while its attempt is open, and goes when another one has taken its place", async () => {
    const { attempt, register, runners, round } = world();
    attempt("r1-1", "open");
    attempt("r2-1", "replaced");
    register("1", nameOf("r1-1"));
    register("2", nameOf("r2-1"));
    await round();
    await round(3_600_000);
    expect([...runners.keys()]).toEqual(["1"]);
  });

  it("is left alone while a pod of its attempt is not proven gone, or its request does not read", async () => {
    const { attempt, register, runners, round, sql } = world();
    attempt("r1-1", "closed");
    attempt("r2-1", "unreadable");
    const line = {
      kind: "open",
      podId: "p1",
      attemptId: "r1-1",
      gpuId: null,
      tier: "t",
      pricePerHour: 1,
      paidFrom: T0,
    };
    sql.exec(
      `INSERT INTO ledger (pod_id, attempt_id, request_id, tier, paid_from) VALUES (?, ?, 'r1', ?, ?)`,
      line.podId,
      line.attemptId,
      line.tier,
      line.paidFrom,
    );
    register("1", nameOf("r1-1"));
    register("2", nameOf("r2-1"));
    await round();
    expect([...runners.keys()]).toEqual(["1", "2"]);
    sql.exec("UPDATE ledger SET closed_at = 1, proven_at = 1");
    await round(3_600_000);
    expect([...runners.keys()]).toEqual(["2"]);
  });

  it("is left alone while it is online", async () => {
    const { attempt, register, runners, round } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"), { status: "online" });
    await round();
    expect(runners.size).toBe(1);
  });

  it("of an attempt that nobody here remembers goes when no pod can need it any more, and only as long as it never came online", async () => {
    const { register, runners, round } = world();
    register("1", nameOf("r1bkztd-1"));
    register("2", nameOf("r2bkztd-1"));
    let passed = 0;
    for (; passed < UNHEARD_MS; passed += ROUND) {
      const second = runners.get("2");
      if (second !== undefined)
        second.status = passed > UNHEARD_MS / 2 && passed < UNHEARD_MS * 0.8 ? "online" : "offline";
      await round();
    }
    expect([...runners.keys()]).toEqual(["1", "2"]);
    await round(3_600_000);
    expect([...runners.keys()]).toEqual(["2"]);
    await round(UNHEARD_MS);
    expect(runners.size).toBe(0);
  });

  it("and that GitHub calls busy is ordered gone again in each round, told after so many tries, and until it is gone", async () => {
    const { attempt, register, runners, answers, asked, round, told, sql, gate } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"));
    answers.deletion.set("1", "busy");
    for (let tries = 1; tries < TOLD_AFTER_TRIES; tries += 1) await round();
    expect(told()).toEqual([]);
    await round();
    expect(asked.filter((call) => call.startsWith("delete"))).toHaveLength(TOLD_AFTER_TRIES);
    expect(told()).toEqual([
      `The runner ${nameOf("r1-1")} of repository 101 is no longer needed and is still registered after 5 tries to remove it: GitHub says that it is running a job.`,
    ]);
    await round();
    expect(sql.exec("SELECT act FROM audit WHERE act = 'runner.left-stuck'")).toHaveLength(1);
    // In cron's report, apart from what cron's other duties go by.
    const { problems, notices, visits } = await visited(new Map([["101", () => gate().tick()]]));
    expect(notices).toEqual([expect.stringContaining("still registered after 6 tries")]);
    expect(problems).toEqual([]);
    expect(Object.keys(visits[0] ?? {})).not.toContain("notices");
    answers.deletion.clear();
    await round();
    expect(runners.size).toBe(0);
    expect(told()).toEqual([]);
  });

  it("is forgotten with the place it was listed at: its id is another machine's elsewhere", async () => {
    for (const moves of [
      (w: ReturnType<typeof world>) => w.runnersAt("organization"),
      (w: ReturnType<typeof world>) => w.gate().store.rememberRepository({ ...REPOSITORY, owner: "umbrella" }, "77"),
    ]) {
      const moved = world("repository");
      const { attempt, register, runners, answers, asked, round, sql } = moved;
      attempt("r1-1", "closed");
      register("7", nameOf("r1-1"));
      answers.deletion.set("7", "busy");
      await round();
      answers.deletion.clear();
      moves(moved);
      runners.clear();
      register("7", "build-machine-7");
      asked.length = 0;
      await round();
      expect(asked.map((call) => call.split(" ")[0])).toEqual(["list"]);
      expect(runners.size).toBe(1);
      // Nor what the new place does not have is taken for removed.
      runners.clear();
      await round(3_600_000);
      expect(sql.exec("SELECT act FROM audit WHERE act LIKE 'runner.left-%'")).toEqual([]);
    }
  });

  it("begins anew where the same id has another name", async () => {
    const { register, runners, round } = world();
    register("1", nameOf("r1bkztd-1"));
    await round();
    runners.clear();
    register("1", nameOf("r2bkztd-1"));
    await round(UNHEARD_MS);
    expect(runners.size).toBe(1);
    await round(UNHEARD_MS);
    expect(runners.size).toBe(0);
  });

  it.each<[string, { readonly status?: string; readonly name?: string }]>([
    ["came online", { status: "online" }],
    ["got another name", { name: "build-machine-1" }],
  ])("is looked at before each order, and left alone when it %s since the list", async (_what, change) => {
    const { attempt, register, runners, answers, asked, round, sql } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"));
    answers.deletion.set("1", "busy");
    await round();
    expect(asked).toEqual(["list repository", "look 1", "delete 1"]);
    answers.deletion.clear();
    register("1", change.name ?? nameOf("r1-1"), change);
    asked.length = 0;
    await round();
    await round();
    expect(asked).toEqual(["look 1"]);
    expect(runners.size).toBe(1);
    expect(sql.exec("SELECT act FROM audit WHERE act LIKE 'runner.left-%'")).toEqual([]);
  });

  it("is not ordered gone while it has a job, and told after as many looks as after orders", async () => {
    const { attempt, register, asked, round, told } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"), { busy: true });
    for (let tries = 1; tries < TOLD_AFTER_TRIES; tries += 1) await round();
    expect(told()).toEqual([]);
    await round();
    expect(told()).toEqual([
      expect.stringContaining("after 5 tries to remove it: GitHub says that it is running a job"),
    ]);
    expect(asked.filter((call) => call.startsWith("delete"))).toEqual([]);
  });

  it("that is gone by itself is forgotten, and not said to be removed", async () => {
    const { attempt, register, runners, answers, asked, round, sql } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"));
    answers.deletion.set("1", "busy");
    await round();
    runners.clear();
    asked.length = 0;
    await round();
    await round();
    expect(asked).toEqual(["look 1"]);
    expect(sql.exec("SELECT act FROM audit WHERE act LIKE 'runner.left-%'")).toEqual([]);
  });

  it("is not ordered gone on an old list when no new one is to be had", async () => {
    const { attempt, register, answers, asked, round } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"));
    answers.deletion.set("1", "busy");
    await round();
    answers.list = "limited";
    asked.length = 0;
    await round(3_600_000);
    expect(asked).toEqual(["list repository"]);
  });

  it.each([
    ["the repository is gone", { pulls: "missing" }, 0],
    ["its list of runners is gone", { list: "missing" }, LIST_EVERY_MS],
    ["the App has no place there any more", { pulls: "suspended" }, UNREAD_MS],
    ["its list is long unread", { list: "limited" }, UNREAD_MS],
  ] as const)("is told no more when %s", async (_what, change, after) => {
    const { attempt, register, answers, round, told } = world();
    attempt("r1-1", "closed");
    register("1", nameOf("r1-1"));
    answers.deletion.set("1", "busy");
    for (let tries = 0; tries < TOLD_AFTER_TRIES; tries += 1) await round();
    Object.assign(answers, change);
    // Time enough is measured from the list, which the first of these rounds read.
    const rounds = after / ROUND - (TOLD_AFTER_TRIES - 1);
    for (let passed = 0; passed < rounds; passed += 1) {
      expect(told()).toHaveLength(1);
      await round();
    }
    await round();
    expect(told()).toEqual([]);
    // And begins anew when GitHub answers again.
    Object.assign(answers, { pulls: "ok", list: "ok" });
    await round();
    expect(told()).toEqual([]);
  });

  it("is told of few, of each gate in turn, behind everything else on the board", async () => {
    const tick = (id: string, count: number) => (): GateTick => ({
      overdue: 0,
      open: 0,
      pods: [],
      notices: Array.from({ length: count }, (_, index) => `notice ${index + 1} of ${id}`),
    });
    const wake = await visited(
      new Map([
        ["101", tick("101", 6)],
        ["102", tick("102", 0)],
        ["103", tick("103", 2)],
      ]),
    );
    expect(wake.notices).toEqual([
      "notice 1 of 101",
      "notice 1 of 103",
      "notice 2 of 101",
      "notice 2 of 103",
      "notice 3 of 101",
      "Gates have 3 more notices like these.",
    ]);
    const reap = { kind: "no-list", problems: ["no list"] } as never;
    const board = boardOf({ startedAt: T0, wake, reap, duties: [], problems: ["money"] }, T0);
    expect(board.problems).toEqual(["no list", "money", ...wake.notices]);
  });

  it("and that cannot be removed does not keep the others from going", async () => {
    const { attempt, register, runners, answers, round } = world();
    for (const [index, id] of closed(ORDERS_A_ROUND + 1).entries()) {
      attempt(id, "closed");
      register(String(index + 1), nameOf(id));
      if (index < ORDERS_A_ROUND) answers.deletion.set(String(index + 1), "forbidden");
    }
    await round();
    await round();
    expect(runners.has(String(ORDERS_A_ROUND + 1))).toBe(false);
  });

  it("waits without counting a try while GitHub's quota is used up", async () => {
    const { attempt, register, answers, asked, round, told } = world();
    for (const [index, id] of closed(3).entries()) {
      attempt(id, "closed");
      register(String(index + 1), nameOf(id));
      answers.deletion.set(String(index + 1), "limited");
    }
    answers.list = "limited";
    await round();
    expect(asked).toEqual(["list repository"]);
    answers.list = "ok";
    for (let rounds = 0; rounds < TOLD_AFTER_TRIES + 2; rounds += 1) await round();
    // The first refusal ends the round.
    expect(asked.filter((call) => call.startsWith("delete"))).toHaveLength(TOLD_AFTER_TRIES + 2);
    expect(told()).toEqual([]);
  });

  it("goes all the same when the process died between the list and the last order", async () => {
    const { attempt, register, runners, round, dieAfterOrders, restart } = world();
    for (const [index, id] of closed(5).entries()) {
      attempt(id, "closed");
      register(String(index + 1), nameOf(id));
    }
    attempt("r9-1", "open");
    register("9", nameOf("r9-1"));
    dieAfterOrders(2);
    await Promise.race([round(), new Promise((resolve) => setImmediate(resolve))]);
    expect(runners.size).toBe(4);
    restart();
    await round();
    expect([...runners.keys()]).toEqual(["9"]);
  });
});
