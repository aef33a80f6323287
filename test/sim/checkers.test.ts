/** Each checker can object: shown a history that breaks its invariant, it says so; shown the honest twin, it does not. */
import { describe, expect, test } from "vitest";
import { SCHEMA_VERSION } from "../../durable-objects/gate/schema.ts";
import { newRequest } from "../../shared/lifecycle/new-request.ts";
import { EXECUTE, PREPARE, type Pull, type Repository } from "../../sim/github-model.ts";
import { SimHeaders } from "../../sim/answer.ts";
import type { FaultKind } from "../../sim/faults.ts";
import type { NetRequest } from "../../sim/net.ts";
import type { VirtualPod } from "../../sim/runpod.ts";
import { check, checker, CODE, DOCS, HEAD, MERGE, MINUTE, pod, repository, request, run, world } from "./views.ts";

describe("I1", () => {
  test("two paid pods of one repository", () => {
    expect(checker("I1").step?.(world({ pods: [pod(), pod({ id: "p2" })] }))).toContain("pays for 2 pods");
    expect(checker("I1").step?.(world({ pods: [pod(), pod({ id: "p2", releasedAt: 1 })] }))).toBeNull();
  });

  test("a late pod is excused for one tick more that a sweep without an end kept out, and not for the next", () => {
    const pods = [pod(), pod({ id: "p2", late: true })];
    const ticks = [MINUTE, 2 * MINUTE];
    const i1 = (skipped: number[]) => checker("I1").step?.(world({ pods, now: 10 * MINUTE, ticks, skipped }));
    expect(i1([MINUTE])).toBeNull();
    expect(
      checker("I1").step?.(world({ pods, now: 10 * MINUTE, ticks: [...ticks, 3 * MINUTE], skipped: [MINUTE] })),
    ).toContain("2 pods");
    const three = world({
      pods,
      now: 10 * MINUTE,
      ticks: [...ticks, 3 * MINUTE],
      skipped: [MINUTE, 2 * MINUTE, 3 * MINUTE],
    });
    expect(checker("I1").step?.(three)).toContain("2 pods");
  });

  test("a late pod is excused for two ticks, and not for ever", () => {
    const pods = [pod(), pod({ id: "p2", late: true })];
    expect(checker("I1").step?.(world({ pods, now: MINUTE, ticks: [MINUTE] }))).toBeNull();
    expect(checker("I1").step?.(world({ pods, now: 10 * MINUTE, ticks: [MINUTE, 2 * MINUTE] }))).toContain("2 pods");
  });
});

describe("I2", () => {
  const line = { pod_id: "p1", proven_at: 20_000, closed_at: 1, estimate_micros: 1 };
  const gone = pod({ releasedAt: 1, deletes: [{ askedAt: 1, performedAt: 1, by: "gate" }] });
  const PROOF: readonly (readonly [string, string, number])[] = [
    ["deletePod", "/v2/pods/p1", 1],
    ["getPod", "/v2/pods/p1", 2],
    ["listPods", "/v2/pods", 3],
    ["listPods", "/v2/pods", 10_003],
  ];
  /** The end of a run in which this was asked of RunPod. */
  const endAfter = (
    asked: readonly (readonly [string, string, number])[],
    more: Parameters<typeof world>[0],
    caller = "gate 101",
  ) => {
    const judge = checker("I2");
    for (const [operation, path, askedAt] of asked) {
      judge.performing?.(world(more), operation, { ...request(path, null, caller), askedAt });
    }
    return judge.end?.(world(more));
  };

  test("a line that closes while RunPod bills the pod", () => {
    expect(checker("I2").step?.(world({ pods: [pod()], rows: { ledger: [line] } }))).toContain("while RunPod bills it");
  });

  test("a pod that stays, a pod without a line, a pod with two", () => {
    expect(checker("I2").end?.(world({ pods: [pod()] }))).toContain("never released");
    expect(checker("I2").end?.(world({ pods: [gone] }))).toContain("has 0 lines");
    expect(checker("I2").end?.(world({ pods: [gone], rows: { ledger: [line, line] } }))).toContain("has 2 lines");
    expect(endAfter(PROOF, { pods: [gone], rows: { "FROM ledger WHERE": [line] } })).toBeNull();
  });

  test.each<[string, number]>([
    ["an order to delete it", 0],
    ["a look at the pod after the DELETE", 1],
    ["two spaced lists after the DELETE", 2],
    ["two spaced lists after the DELETE", 3],
  ])("a line that closes without %s (%#)", (what, without) => {
    const asked = PROOF.filter((_, index) => index !== without);
    expect(endAfter(asked, { pods: [gone], rows: { "FROM ledger WHERE": [line] } })).toContain(`without ${what}`);
  });

  test("lists that were asked for before the DELETE was answered, or too close to each other", () => {
    const rows = { "FROM ledger WHERE": [{ ...line, closed_at: 100 }] };
    expect(endAfter(PROOF, { pods: [gone], rows })).toContain("a look at the pod");
    const close = PROOF.map(([operation, path, at]) => [operation, path, Math.min(at, 9_000)] as const);
    expect(endAfter(close, { pods: [gone], rows: { "FROM ledger WHERE": [line] } })).toContain("two spaced lists");
  });

  test("a line about no pod, or in another repository's book", () => {
    const rows = { "FROM ledger WHERE": [line], "AS id FROM ledger": [{ id: "p1" }, { id: "p9" }] };
    expect(endAfter(PROOF, { pods: [gone], rows })).toContain("p9, which RunPod never rented");
    const foreign = pod({ ...gone, env: { ...gone.env, GPU_GATE_REPOSITORY_ID: "202" } });
    expect(endAfter(PROOF, { pods: [foreign], rows: { ...rows, "AS id FROM ledger": [{ id: "p1" }] } })).toContain(
      "p1 stands in the ledger of repo0",
    );
  });

  test("no line: only for what nobody was told of, or what cron could tell neither its gate nor the account", () => {
    const lost = pod({ releasedAt: 1, vanished: true });
    expect(checker("I2").end?.(world({ pods: [lost] }))).toBeNull();
    expect(checker("I2").end?.(world({ pods: [lost], rows: { attempts: [{ id: "r1-1" }] } }))).toContain("0 lines");
    const unheard = ["owe p1", "endSweep", "endSweep"].map((operation, at) => ({ service: "account", operation, at }));
    const end = (more: object, caller = "cron") => endAfter(PROOF, { pods: [gone], ...more }, caller);
    expect(end({ unheard })).toBeNull();
    expect(end({ unheard }, "gate 101")).toContain("0 lines");
    const late = unheard.map((one) => ({ ...one, at: 5 + one.at }));
    for (const few of [[], late, unheard.slice(0, 2), unheard.slice(1)]) {
      expect(end({ unheard: few })).toContain("0 lines");
    }
    expect(end({ unheard, rows: { "FROM meta": [{ key: "owed:p1" }] } })).toContain("0 lines");
  });

  test("an estimate far from the bill", () => {
    const rows = { "FROM ledger WHERE": [{ ...line, estimate_micros: 900_000 }] };
    expect(endAfter(PROOF, { pods: [gone], rows })).toContain("s apart");
    // Late by a minute, so a minute more than the bill, and not an hour.
    const late = pod({ ...gone, late: true, createdAt: MINUTE });
    const told = (seconds: number) => ({
      "FROM ledger WHERE": [{ ...line, estimate_micros: (seconds * 1_000_000) / 3_600 }],
    });
    expect(endAfter(PROOF, { now: MINUTE, pods: [late], rows: told(60) })).toBeNull();
    expect(endAfter(PROOF, { now: MINUTE, pods: [late], rows: told(900) })).toContain("s apart");
    // What RunPod lost is never booked below its bill.
    const vanished = pod({ ...gone, vanished: true });
    expect(endAfter(PROOF, { now: 3_600_000, pods: [vanished], rows: told(0) })).toContain("s apart");
    expect(endAfter(PROOF, { pods: [vanished], rows: told(900) })).toBeNull();
  });
});

describe("a kept pod", () => {
  const now = 2.5 * 3_600_000;
  const kept = pod({ env: { ...pod().env, GPU_GATE_KEEP: "true" } });
  const record = (until: number) => ({ strays: [{ record: JSON.stringify({ retained: { until } }) }] });
  const asked = repository({ keepAlways: true });
  const ticks = [now - 3 * MINUTE, now - 2 * MINUTE, now - MINUTE];
  const i3 = (more: Parameters<typeof world>[0]) => checker("I3").step?.(world({ pods: [kept], now, ticks, ...more }));

  test("outlives the backstop with a word and a record that can be read, until its end", () => {
    expect(i3({ repository: asked, rows: record(now + MINUTE) })).toBeNull();
    expect(i3({ repository: asked, rows: record(now - 3_600_000) })).toContain("nobody removes it");
    expect(i3({ repository: asked, rows: { strays: [{ record: "{" }] } })).toContain("nobody removes it");
    expect(i3({ rows: record(now + MINUTE) })).toContain("nobody removes it");
  });

  test("is not one pod too many", () => {
    const pods = [kept, pod({ id: "p2" })];
    const rows = record(now + MINUTE);
    expect(checker("I1").step?.(world({ pods, now, rows, repository: asked }))).toBeNull();
    const over = { pods, now, rows: record(now - 3_600_000), repository: asked };
    expect(checker("I1").step?.(world(over))).toContain("pays for 2 pods");
    // Only its gate knows that, and it is down.
    expect(checker("I1").step?.(world({ ...over, up: false }))).toBeNull();
    expect(checker("I1").step?.(world({ pods, now, rows }))).toContain("pays for 2 pods");
  });
});

test("I3: a pod beyond the backstop that nobody removes", () => {
  const now = 3 * 3_600_000;
  const ticks = [now - 3 * MINUTE, now - 2 * MINUTE, now - MINUTE];
  expect(checker("I3").step?.(world({ pods: [pod()], now, ticks }))).toContain("nobody removes it");
  const ordered = pod({ deletes: [{ askedAt: now, performedAt: now, by: "cron" }] });
  expect(checker("I3").step?.(world({ pods: [ordered], now, ticks }))).toBeNull();
});

test("I3: a pod that came late and that cron has seen often enough", () => {
  const ticks = [1, 2, 3, 4].map((minute) => minute * MINUTE);
  const late = pod({ late: true });
  const now = 5 * MINUTE + 1;
  expect(checker("I3").step?.(world({ pods: [late], now, ticks }))).toContain("nobody removes it");
  expect(checker("I3").step?.(world({ pods: [late], now: now - 2, ticks }))).toBeNull();
  expect(checker("I3").step?.(world({ pods: [late], now, ticks: ticks.slice(1) }))).toBeNull();
  expect(checker("I3").step?.(world({ pods: [pod()], now, ticks }))).toBeNull();
  const among = (kind: FaultKind) => {
    const view = world({ pods: [late], now, ticks, healed: false });
    const faults = { healed: false, plan: { weights: new Map([[kind, 1]]) } } as unknown as typeof view.faults;
    return checker("I3").step?.({ ...view, faults });
  };
  expect(among("twin-deployment")).toContain("nobody removes it");
  expect(among("runpod-refuses")).toBeNull();
});

describe("I4", () => {
  const say = (more: Parameters<typeof world>[0], what = check()) => {
    const view = world(more);
    const repo = view.github.repositories[0];
    return repo === undefined ? null : checker("I4").wrote?.(view, repo, what);
  };
  const gone = pod({ releasedAt: 1 });

  test("success with everything behind it", () => {
    expect(say({ pods: [gone] })).toBeNull();
  });

  test.each<[string, Parameters<typeof world>[0]]>([
    ["no pod", { pods: [] }],
    ["its pod is not gone", { pods: [pod()] }],
    ["instead of", { pods: [{ ...gone, realGpu: "GTX 1050" }] }],
    ["no run", { pods: [gone], repository: repository({ runs: new Map() }) }],
    [
      "another revision",
      { pods: [gone], repository: repository({ runs: new Map([["9", run({ inputs: { request: "r1" } })]]) }) },
    ],
  ])("success, but %s", (what, more) => {
    expect(say(more)).toContain(what);
  });

  test("success for documentation needs no pod; for a head nobody pushed it is a lie", () => {
    const heads = new Map([[HEAD, { prNumber: 1, files: DOCS, mergeSha: MERGE }]]);
    const open = (number: number, files: typeof DOCS) =>
      [number, { number, state: "open", headSha: HEAD, changes: [], files }] as unknown as [number, Pull];
    expect(say({ repository: repository({ heads, pulls: new Map([open(1, DOCS)]) }) })).toBeNull();
    // Two pull requests of one commit: it speaks for both.
    const shared = repository({ heads, pulls: new Map([open(1, DOCS), open(2, CODE)]) });
    expect(say({ repository: shared, pods: [] })).toContain("without evidence");
    expect(say({}, check({ headSha: MERGE }))).toContain("which no pull request ever had");
  });
});

const ASKED = {
  row: 1,
  kind: "pull-request",
  prNumber: 1,
  headSha: HEAD,
  generation: 1,
  actor: { id: "7", login: "mona" },
} as unknown as Parameters<typeof newRequest>[1];

describe("I5", () => {
  test("a secret in a body, in a log line, in a stored row", () => {
    const update = request("/repos/acme/repo0/check-runs/1", { text: "jit-of-p1" });
    expect(checker("I5").performing?.(world({ pods: [pod()] }), "updateCheck", update)).toContain("sends a secret");
    expect(checker("I5").step?.(world({ log: ["token ghs_token"] }))).toContain("log line");
    expect(checker("I5").end?.(world({ pods: [pod()], rows: { audit: [{ facts: "jit-of-p1" }] } }))).toContain("audit");
  });

  test("a pod is given a variable that is on no list, or the key", () => {
    const create = (env: object) => request("/v2/pods", { env });
    expect(checker("I5").performing?.(world({}), "createPod", create({ AWS_SECRET: "x" }))).toContain("AWS_SECRET");
    expect(checker("I5").performing?.(world({}), "createPod", create({ GPU_GATE_TIER: "rpa_KEY" }))).toContain("a key");
    expect(checker("I5").performing?.(world({}), "createPod", create({ GPU_GATE_TIER: "x" }))).toBeNull();
  });

  test("a pod is given another's secret, its own outside its variable, or one that two attempts share", () => {
    const create = (body: object) =>
      checker("I5").performing?.(world({ pods: [pod()] }), "createPod", request("/v2/pods", body));
    const env = { GPU_GATE_ATTEMPT: "r1-2", GPU_GATE_JIT_CONFIG: "jit-of-p2" };
    expect(create({ env })).toBeNull();
    expect(create({ env: { ...env, GPU_GATE_TIER: "jit-of-p1" } })).toContain("another pod's secret");
    expect(create({ env, args: "run jit-of-p2" })).toContain("outside its variable");
    expect(create({ env: { ...env, GPU_GATE_TIER: "jit-of-p2" } })).toContain("outside its variable");
    expect(create({ env: { ...env, GPU_GATE_JIT_CONFIG: "jit-of-p1" } })).toContain("two attempts share");
    expect(create({ env: { GPU_GATE_ATTEMPT: "r1-1", GPU_GATE_JIT_CONFIG: "jit-of-p1" } })).toBeNull();
  });

  test("a provider is shown the other's key", () => {
    const call = (operation: string, key: string) =>
      checker("I5").performing?.(world({}), operation, {
        ...request("/x", null),
        headers: new SimHeaders({ authorization: key }),
      });
    expect(call("listPods", "Bearer rpa_KEY")).toBeNull();
    expect(call("getPull", "token ghs_token")).toBeNull();
    expect(call("listPods", "token ghs_token")).toContain("another provider's key");
    expect(call("getPull", "Bearer rpa_KEY")).toContain("another provider's key");
  });

  test("a secret in any other table, the account's too, and in the view of a request", () => {
    const tables = { sqlite_master: [{ name: "lanes" }], "FROM lanes": [{ x: "rpa_KEY" }] };
    expect(checker("I5").end?.(world({ rows: tables }))).toContain("the table lanes");
    expect(checker("I5").end?.(world({ money: [{ name: "money", x: "rpa_KEY" }] }))).toContain("the table money");
    const told = (detail: string) => {
      const stored = {
        ...newRequest("r1", ASKED, 0),
        state: { kind: "concluded", at: 0, verdict: { kind: "failed", reason: "tests-failed", detail } },
      };
      const store = { request: () => stored, placeInQueue: () => null };
      const view = world({ store });
      const repo = view.github.repositories[0];
      return repo === undefined ? null : checker("I5").wrote?.(view, repo, check());
    };
    expect(told("rpa_KEY was refused")).toContain("the view of r1");
    expect(told("it was refused")).toBeNull();
  });
});

describe("I6", () => {
  const row = (seq: number, id: string, act: string, fence = 0, at = 0) => ({
    seq,
    at,
    request_id: id,
    act,
    facts: JSON.stringify({ fence }),
  });
  const lockOf = (rows: readonly { act: string; request_id: string }[]) => {
    const last = rows.findLast((one) => one.act === "lock.granted" || one.act === "lock.release");
    return { lock: () => ({ holder: last?.act === "lock.granted" ? last.request_id : null }) };
  };
  const read = (...rows: ReturnType<typeof row>[]) =>
    checker("I6").step?.(world({ rows: { audit: rows }, store: lockOf(rows) }));
  const queue = [row(1, "r1", "lock.enqueue"), row(2, "r2", "lock.enqueue")];

  test("in order, one after the other", () => {
    const first = [row(3, "r1", "lock.granted", 1), row(4, "r1", "lock.release", 1)];
    expect(read(...queue, ...first, row(5, "r2", "lock.granted", 2))).toBeNull();
  });

  test("out of turn, twice at once, with an old fence, released by another", () => {
    expect(read(...queue, row(3, "r2", "lock.granted", 1))).toContain("before r1");
    const held = [...queue, row(3, "r1", "lock.granted", 2)];
    expect(read(...held, row(4, "r2", "lock.granted", 3))).toContain("while r1 holds it");
    expect(read(...held, row(4, "r1", "lock.release", 2), row(5, "r2", "lock.granted", 2))).toContain("fence");
    expect(read(...held, row(4, "r2", "lock.release", 2))).toContain("r2 released");
  });

  test("a lock that is stored otherwise than the audit says", () => {
    const rows = [...queue, row(3, "r1", "lock.granted", 1)];
    const store = { lock: () => ({ holder: "r2" }) };
    expect(checker("I6").step?.(world({ rows: { audit: rows }, store }))).toContain("is r2's, said to be r1's");
  });

  test("a pod is bought, or a GPU run is started, by whoever does not hold the lock", () => {
    const rows = [...queue, row(3, "r1", "lock.granted", 1)];
    const create = (id: string) => request("/v2/pods", { env: { GPU_GATE_REQUEST: id } });
    const act = (operation: string, what: NetRequest) =>
      checker("I6").performing?.(world({ now: 1, rows: { audit: rows } }), operation, what);
    expect(act("createPod", create("r1"))).toBeNull();
    expect(act("createPod", create("r2"))).toContain("without the lock");
    const path = (file: string) => `/repos/acme/repo0/actions/workflows/${file.split("/").at(-1) ?? ""}/dispatches`;
    expect(act("dispatch", request(path(EXECUTE), { inputs: { request: "r2" } }))).toContain("without the lock");
    expect(act("dispatch", request(path(PREPARE), { inputs: { request: "r2" } }))).toBeNull();
    // What was sent by a holder may arrive after it; what was sent after it is a stale holder's.
    const over = checker("I6");
    const told = { audit: rows };
    const view = world({ rows: told, store: { lock: () => lockOf(told.audit).lock() } });
    over.step?.({ ...view, now: 1 });
    told.audit = [row(4, "r1", "lock.release", 1, 5)];
    for (const host of view.hosts) host.writes += 1;
    over.step?.({ ...view, now: 5 });
    told.audit = [];
    expect(over.performing?.(view, "createPod", { ...create("r1"), askedAt: 4 })).toBeNull();
    expect(over.performing?.(view, "createPod", { ...create("r1"), askedAt: 8 })).toContain("without the lock");
  });
});

describe("I7", () => {
  const ended = (reason: string) => ({ id: "r1", state: { kind: "concluded", verdict: { reason } } });
  const end = (stored: object, repo = repository()) =>
    checker("I7").end?.(world({ repository: repo, store: { recentRequests: () => [stored] } }));

  test("concluded, with a reason from the list and a check", () => {
    expect(end(ended("head-moved"))).toBeNull();
  });

  test("still open, without a reason, without a check, unfinished, never told", () => {
    expect(end({ id: "r1", state: { kind: "queued" } })).toContain("still queued");
    expect(end(ended("because"))).toContain("no reason code");
    expect(end({ ...ended("head-moved"), id: "r2" })).toContain("has no check");
    expect(end(ended("head-moved"), repository({ checks: new Map([["1", check({ status: "queued" })]]) }))).toContain(
      "hangs",
    );
    expect(end(ended("head-moved"), repository({ checks: new Map([["1", check({ headSha: MERGE })]]) }))).toContain(
      "never got a check",
    );
  });
});

describe("I8", () => {
  const cancelled = (lastRead: object | null, pods: VirtualPod[]) => {
    const cancels = [{ at: MINUTE, run: run(), attempt: 1, lastRead }];
    return checker("I8").step?.(world({ pods, repository: repository({ cancels } as unknown as Partial<Repository>) }));
  };
  const unfinished = { attempt: 1, status: "in_progress" };

  test("after the pod, after a look", () => {
    expect(cancelled(unfinished, [pod({ releasedAt: 1 })])).toBeNull();
  });

  test("before the pod is gone, unread, another attempt, a finished one", () => {
    expect(cancelled(unfinished, [pod()])).toContain("before its pod");
    expect(cancelled(null, [])).toContain("without having been read");
    expect(cancelled({ attempt: 2, status: "queued" }, [])).toContain("2 was read");
    expect(cancelled({ attempt: 1, status: "completed" }, [])).toContain("completed");
  });
});

test("I10: two open requests of one head, and one more than anybody asked for", () => {
  const rows = (n: number, open: number, bases: number, given: number) => ({
    "AS n FROM requests": [{ n: 9, head_sha: HEAD, kind: "pull-request" }],
    GROUP: [{ head_sha: HEAD, kind: "x", n, open, bases, given, rest: n }],
  });
  const step = (n: number, open: number, bases = 1, given = 0) => {
    const grouped = rows(n, open, bases, given);
    return checker("I10").step?.(
      world({ rows: { GROUP: grouped.GROUP, "AS n FROM requests": grouped["AS n FROM requests"] } }),
    );
  };
  expect(step(1, 1)).toBeNull();
  expect(step(2, 2)).toContain("2 open requests");
  expect(step(2, 1)).toContain("asked for again 0 times");
  expect(step(2, 1, 2)).toBeNull();
  // An answer given back is no question; one that is given back again and again is.
  expect(step(1, 0, 1, 1)).toBeNull();
  expect(step(1, 0, 1, 2)).toBeNull();
  expect(step(1, 0, 1, 3)).toContain("given its answer back 3 times over 1 requests");
});

test("I11: a healthy pod at work is deleted for nothing", () => {
  const working = run({ status: "in_progress" });
  const job = working.jobs[0]?.[0];
  if (job === undefined) throw new Error("a job is needed");
  job.status = "in_progress";
  job.steps.splice(2, 1, { name: "Run GPU tests", status: "in_progress", conclusion: null });
  const busy = pod({ busy: true });
  const repo = repository({ runs: new Map([["9", working]]) });
  const order = request("/v2/pods/p1", null);
  expect(
    checker("I11").performing?.(world({ pods: [busy], repository: repo, now: MINUTE }), "deletePod", order),
  ).toContain("healthy job");
  const moved = repository({ runs: new Map([["9", working]]) });
  moved.pulls.get(1)?.changes.push(30_000);
  expect(
    checker("I11").performing?.(world({ pods: [busy], repository: moved, now: MINUTE }), "deletePod", order),
  ).toBeNull();
});

test("I11: something is bought for a pull request that was not just read", () => {
  const env = { GPU_GATE_REPOSITORY_ID: "101", GPU_GATE_ATTEMPT: "r1-1", GPU_GATE_REQUEST: "r1" };
  const store = { request: () => ({ kind: "pull-request", prNumber: 1 }) };
  const bought = (...looks: readonly (readonly [at: number, how: "read" | "lost" | "refused"])[]) => {
    const one = checker("I11");
    for (const [at, how] of looks) {
      const asked = { ...request("/repos/acme/repo0/pulls/1", null), askedAt: at };
      if (how === "refused") one.refused?.("getPull", asked);
      else one.performed?.("getPull", asked, 200, how === "read");
    }
    return one.performing?.(world({ store }), "createPod", { ...request("/v2/pods", { env }), askedAt: MINUTE });
  };
  expect(bought([MINUTE - 500, "read"])).toBeNull();
  expect(bought()).toContain("has not read just before");
  expect(bought([-500, "read"])).toContain("has not read just before");
  for (const how of ["lost", "refused"] as const) {
    expect(bought([1_000, "read"], [MINUTE - 500, how])).toContain("has not read just before");
    expect(bought([1_000, how], [MINUTE - 500, "read"])).toBeNull();
  }
});

test("I11: at the end of the time for acceptance it matters whether GitHub had shown the job", () => {
  const working = run({ status: "in_progress" });
  const job = working.jobs[0]?.[0];
  if (job === undefined) throw new Error("a job is needed");
  job.status = "in_progress";
  job.startedAt = 6 * MINUTE;
  job.steps.splice(2, 1, { name: "Run GPU tests", status: "in_progress", conclusion: null });
  job.runnerId = "8";
  type Looked = {
    readonly at: number;
    readonly how: "heard" | "lost" | "forbidden" | "refused";
    readonly runner?: string;
    readonly what?: "getRunner" | "getRun" | "installationToken";
  };
  const deleted = (now: number, ...looks: readonly Looked[]): string | null => {
    const one = checker("I11");
    const order = request("/v2/pods/p1", null);
    for (const { at, how, runner = "8", what = "getRunner" } of looks) {
      const asked = { ...request(`/repos/acme/repo0/actions/runners/${runner}`, null), askedAt: at };
      if (how === "refused") one.refused?.(what, asked);
      else one.performed?.(what, asked, how === "forbidden" ? 403 : 200, how !== "lost");
    }
    const repo = repository({ runs: new Map([["9", working]]) });
    return one.performing?.(world({ pods: [pod({ busy: true })], repository: repo, now }), "deletePod", order) ?? null;
  };
  const end = 7 * MINUTE + 5_000;
  expect(deleted(end, { at: 6.5 * MINUTE, how: "heard" })).toContain("healthy job");
  // Whoever does not look at all has no excuse, nor has who looked long before.
  expect(deleted(end)).toContain("healthy job");
  expect(deleted(end, { at: 5 * MINUTE, how: "heard" })).toContain("healthy job");
  // Asked as it began, asked so lately that the answer may be on its way, and asked in vain.
  expect(deleted(end, { at: 6 * MINUTE - 5_000, how: "heard" })).toBeNull();
  expect(deleted(end, { at: end - 5_000, how: "heard" })).toBeNull();
  for (const how of ["lost", "forbidden", "refused"] as const) {
    expect(deleted(end, { at: 6.5 * MINUTE, how })).toBeNull();
    expect(deleted(end, { at: 6.5 * MINUTE, how }, { at: 6.6 * MINUTE, how: "heard" })).toContain("healthy job");
  }
  // Without a token there is no look, and having one is none.
  expect(deleted(end, { at: 6.5 * MINUTE, how: "refused", what: "installationToken" })).toBeNull();
  expect(deleted(end, { at: 6.5 * MINUTE, how: "heard", what: "installationToken" })).toContain("healthy job");
  // A run that goes on shows no runner; that it could not be read is a look in vain.
  expect(
    deleted(end, { at: 6.5 * MINUTE, how: "lost" }, { at: 6.5 * MINUTE, how: "heard", what: "getRun" }),
  ).toBeNull();
  expect(deleted(end, { at: 6.5 * MINUTE, how: "heard", what: "getRun" })).toContain("healthy job");
  // A look at another runner neither shows this one nor is a look at it.
  const other = { at: 6.5 * MINUTE, how: "heard", runner: "9" } as const;
  expect(deleted(end, other, { at: 6.5 * MINUTE, how: "lost" })).toBeNull();
  expect(deleted(end, { ...other, how: "lost" })).toContain("healthy job");
  // Before that time is over, and long after it, nothing of this excuses anything.
  expect(deleted(6.9 * MINUTE, { at: 6.5 * MINUTE, how: "refused" })).toContain("healthy job");
  expect(deleted(9 * MINUTE, { at: 6.5 * MINUTE, how: "refused" })).toContain("healthy job");
});

test("N72: a registration that stays behind, and somebody else's runner that is ordered gone", () => {
  const runner = { id: "8", name: "gpu-gate-sim-101-r1-1", status: "offline" };
  const theirs = { id: "31", name: "build-machine", status: "offline" };
  const repo = repository({ standing: "ok", runners: new Map([["8", runner]]), ownRunners: [theirs] } as never);
  expect(checker("N72").end?.(world({ repository: repo }))).toContain("is still registered");
  runner.status = "online";
  expect(checker("N72").end?.(world({ repository: repo }))).toBeNull();
  const order = (id: string) => request(`/repos/acme/repo0/actions/runners/${id}`, null);
  expect(checker("N72").performing?.(world({ repository: repo }), "deleteRunner", order("31"))).toContain(
    "build-machine",
  );
  expect(checker("N72").performing?.(world({ repository: repo }), "deleteRunner", order("8"))).toBeNull();
});

test("N72: a runner that is ordered gone while its attempt needs it", () => {
  const runner = { id: "8", name: "gpu-gate-sim-101-r1-1", status: "offline" };
  const repo = repository({ runners: new Map([["8", runner]]), ownRunners: [] } as never);
  const ordered = (state: object | null, pods: readonly VirtualPod[] = [], lines: readonly object[] = []) =>
    checker("N72").performing?.(
      world({
        repository: repo,
        pods: [...pods],
        rows: {
          "FROM attempts": [{ id: "r1-1", request_id: "r1" }],
          "FROM requests": [{ record: state === null ? "{" : JSON.stringify({ state }) }],
          "FROM ledger": lines,
          "FROM strays": [],
        },
      }),
      "deleteRunner",
      request("/repos/acme/repo0/actions/runners/8", null),
    );
  const attempt = { id: "r1-1" };
  expect(ordered({ kind: "executing", attempt })).toContain("has not come to its teardown");
  expect(ordered({ kind: "provisioning", step: "create", attempt, teardown: null })).toContain("its attempt r1-1");
  // Its own teardown, or what an unanswered mint left behind.
  expect(ordered({ kind: "cleaning", step: "remove", attempt, teardown: {} }, [pod()], [{ pod_id: "p1" }])).toBeNull();
  expect(ordered({ kind: "provisioning", step: "find-runner", attempt, teardown: null })).toBeNull();
  // Its request has gone on, and its pod has not gone.
  for (const state of [{ kind: "executing", attempt: { id: "r1-2" } }, { kind: "concluded" }, null]) {
    expect(ordered(state, [pod()], [{ pod_id: "p1" }])).toContain("p1 was never ordered deleted");
    expect(ordered(state, [pod()])).toBeNull();
    expect(ordered(state, [pod({ releasedAt: 1 })], [{ pod_id: "p1" }])).toBeNull();
    const deletes = [{ askedAt: 1, performedAt: 1, by: "gate" }];
    expect(ordered(state, [pod({ deletes })], [{ pod_id: "p1" }])).toBeNull();
  }
});

test("I12: a read-only gate that acts", () => {
  const create = request("/v2/pods", { env: {} });
  expect(checker("I12").performing?.(world({ readOnly: true }), "createPod", create)).toContain("read-only gate");
  expect(checker("I12").performing?.(world({ readOnly: true }), "deletePod", create)).toBeNull();
  expect(checker("I12").performing?.(world({}), "createPod", create)).toBeNull();
  // Whatever changes something, not only what was thought of.
  expect(checker("I12").performing?.(world({ readOnly: true }), "deleteRunner", create)).toContain("deleteRunner");
});

test("I12: a read-only gate that writes, and one that refuses what it can read", () => {
  const version = (number: number) => ({ schema_version: [{ version: number }] });
  const judge = checker("I12");
  const newer = world({ readOnly: true, rows: version(99) });
  expect(judge.step?.(newer)).toBeNull();
  expect(judge.step?.(newer)).toBeNull();
  for (const host of newer.hosts) host.writes += 1;
  expect(judge.step?.(newer)).toContain("writes");
  expect(checker("I12").step?.(world({ readOnly: true, rows: version(SCHEMA_VERSION - 1) }))).toContain(
    "its own schema",
  );
  expect(checker("I12").end?.(world({ rows: version(SCHEMA_VERSION) }))).toBeNull();
  expect(checker("I12").end?.(world({ rows: version(SCHEMA_VERSION - 1) }))).toContain("is left on schema");
  expect(checker("I12").end?.(world({ readOnly: true, rows: version(SCHEMA_VERSION) }))).toContain("is read-only");
});
