/** What GitHub's list of open pull requests makes of a commit that several of them share, and in whose name they are asked about. */
import { describe, expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { reconcile, type ReconcileHands } from "../../durable-objects/gate/reconcile.ts";
import type { CodesOf } from "../../shared/audit/reasons.ts";
import { configFrom } from "../../shared/config/load.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Actor, Signal } from "../../shared/lifecycle/signal.ts";
import { verdict, type VerdictKind } from "../../shared/lifecycle/verdict.ts";
import { err, ok } from "../../shared/result.ts";
import { ADMISSION, ALICE, BOB, HEAD, OTHER_HEAD, requestIn, states, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const HERE = { id: "101", owner: "o", name: "n" };

interface Listed {
  readonly number: number;
  readonly baseRef?: string;
  readonly headSha?: string;
  readonly fork?: boolean;
  readonly draft?: boolean;
}

/** What a single read of a pull request says: that GitHub gave no answer, that there is none, or what it is. */
type Reading =
  | "no answer"
  | "not found"
  | { readonly state?: "closed"; readonly headSha?: string; readonly baseRef?: string };

function shared(...known: readonly GateRequest[]) {
  const ports = {
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock: { now: () => T0 + 10_000 },
    random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts;
  const gate = new Gate(ports);
  const { store } = gate;
  store.rememberRepository(HERE, "5");
  for (const request of known) store.saveRequest(request);
  const hands: ReconcileHands = {
    openIfUnknown: (what, about) => gate.openIfUnknown(what, about),
    hint: () => undefined,
    stop: (id, word) => gate.stop(id, word),
    aggregates: { compare: () => undefined, config: () => null } as unknown as ReconcileHands["aggregates"],
  };
  const read: number[] = [];
  /** GitHub lists these as open, and reads the others as closed where it is not said otherwise; gives what was opened. */
  const compare = async (
    listed: readonly Listed[],
    { complete = true, reads = {} }: { complete?: boolean; reads?: Readonly<Record<number, Reading>> } = {},
  ) => {
    const before = new Set(heads().map(({ id }) => id));
    const items = listed.map(({ number, baseRef = "main", headSha = HEAD, fork = false, draft = false }) => ({
      number,
      baseRef,
      headSha,
      state: "open",
      draft,
      headRepositoryId: fork ? "999" : HERE.id,
    }));
    const nothing = async () => err({ reason: "transport", timeout: true });
    const getPull = async (number: number) => {
      read.push(number);
      const reading = reads[number] ?? { state: "closed" };
      if (reading === "no answer") return nothing();
      if (reading === "not found") return err({ reason: "not-found" });
      return ok({ number, state: "open", headSha: HEAD, baseRef: "main", ...reading });
    };
    const listOpenPulls = async () => ok({ items, complete });
    const github = { listOpenPulls, getPull, listRefs: nothing, getRepository: nothing } as unknown as GitHubClient;
    store.putTask("reconcile", "repository", "reconcile", {}, T0, T0);
    const task = store.taskOf("reconcile", "repository");
    if (task === null) throw new Error("the task must be there");
    await reconcile(task, ports, store, github, hands);
    return heads().filter(({ id }) => !before.has(id));
  };
  const heads = () => [HEAD, OTHER_HEAD].flatMap((head) => store.requestsOfHead(head, "pull-request"));
  const compares = () => store.taskOf("reconcile", "repository") !== null;
  let guid = 0;
  const hear = (signal: Signal) => {
    guid += 1;
    gate.accept({ guid: String(guid), event: "pull_request", signal, repository: HERE, installationId: "5" });
  };
  return { gate, store, compare, compares, hear, heads, read };
}

function ended<K extends VerdictKind>(kind: K, reason: CodesOf<K>, change: Partial<GateRequest> = {}): GateRequest {
  return requestIn(
    { kind: "concluded", at: T0, verdict: verdict(kind, reason, "It ended.") },
    { task: null, ...change },
  );
}

function opens(prNumber: number, sender: Actor, baseRef: string, from = HERE.id): Signal {
  const parts = { headRepositoryId: from, draft: false, label: null, sender, baseRef };
  return { kind: "pull-request", action: "opened", prNumber, headSha: HEAD, ...parts };
}

const passed = ended("passed", "tests-passed", { approvedBy: BOB, triggerSeen: true });
const refused = ended("refused", "author-not-permitted", {
  id: "r2",
  prNumber: 8,
  generation: 2,
  openedAt: T0 + 1,
  admission: null,
  baseRef: "stage",
});

const both = [{ number: 7 }, { number: 8, baseRef: "stage" }];
const alone = [{ number: 7 }];

describe("the comparison with GitHub, where a refusal of #8 covers the green of #7", () => {
  it("leaves it where #8 is listed at the head, and reads nothing for that", async () => {
    const { compare, read } = shared(passed, refused);
    expect(await compare(both)).toEqual([]);
    expect(read).toEqual([]);
  });

  it.each<[string, Listed[], Reading]>([
    ["closed", alone, { state: "closed" }],
    ["not to be found", alone, "not found"],
    ["at another head", [...alone, { number: 8, headSha: OTHER_HEAD }], { headSha: OTHER_HEAD }],
  ])("gives the green back where #8 is %s: nobody is asked, and nothing is bought", async (_where, listed, reading) => {
    const { compare, store, read } = shared(passed, refused);
    const opened = (await compare(listed, { reads: { 8: reading } })).filter(({ headSha }) => headSha === HEAD);
    const verdictIs = { kind: "reused", reason: "given-back" };
    const by = { actor: ALICE, approvedBy: BOB, triggerSeen: true };
    expect(opened).toMatchObject([
      { prNumber: 7, generation: 3, ...by, spentMicros: 0, counts: { pods: 0 }, state: { verdict: verdictIs } },
    ]);
    expect(read).toEqual([8]);
    expect(store.openRequests().filter(({ headSha }) => headSha === HEAD)).toEqual([]);
    // Its check is to be written, and nothing else is to be done for it.
    const id = opened[0]?.id ?? "";
    expect([store.taskOf("check", id)?.kind, store.taskOf("main", id)]).toEqual(["check", null]);
    // The next round finds it there.
    expect((await compare(listed, { reads: { 8: reading } })).filter(({ headSha }) => headSha === HEAD)).toEqual([]);
  });

  it.each<[string, boolean, Reading]>([
    ["was cut and a read finds it there", false, { baseRef: "stage" }],
    ["lags and a read finds it there", true, { baseRef: "stage" }],
    ["lacks it and a read has no answer", true, "no answer"],
  ])("leaves it where the list %s", async (_where, complete, reading) => {
    const { compare, read } = shared(passed, refused);
    expect(await compare(alone, { complete, reads: { 8: reading } })).toEqual([]);
    expect(read).toEqual([8]);
  });

  it("asks anew, in nobody's name, where #7 has another base by now", async () => {
    const opened = await shared(passed, refused).compare([{ number: 7, baseRef: "stage2" }]);
    expect(opened).toMatchObject([{ prNumber: 7, actor: null, approvedBy: null, triggerSeen: false }]);
    expect(opened).toMatchObject([{ state: { kind: "authorizing" } }]);
  });

  it("asks about those from here before a fork's", async () => {
    const closed = ended("closed", "closed", { prNumber: 5 });
    expect(await shared(closed).compare([{ number: 8, fork: true }, { number: 9 }])).toMatchObject([{ prNumber: 9 }]);
  });

  it("opens nothing for a fork's over a tested green", async () => {
    expect(await shared(passed).compare([{ number: 7 }, { number: 8, baseRef: "stage", fork: true }])).toEqual([]);
  });
});

describe("the comparison with GitHub, where the last word is over", () => {
  const left = { id: "r3", prNumber: 9, generation: 3, openedAt: T0 + 2, admission: null, baseRef: "stage2" };
  const over = ended("closed", "closed", left);
  const orders = [
    ["first", both],
    ["last", both.toReversed()],
  ] as const;

  it.each(orders)("shows the green of #7, listed %s, at no time to #8, which was refused", async (_which, listed) => {
    const { compare, heads } = shared(passed, refused, over);
    const word = { prNumber: 8, state: { verdict: { reason: "author-not-permitted" } } };
    expect(await compare(listed)).toMatchObject([word]);
    expect(await compare(listed)).toEqual([]);
    expect(heads().at(-1)).toMatchObject(word);
    expect(await compare(alone)).toMatchObject([{ prNumber: 7, state: { verdict: { kind: "reused" } } }]);
  });

  it.each(orders)(
    "nor to #8 where another failed for its base: with #7 %s, #8 has that word",
    async (_which, listed) => {
      const stage = { ...left, admission: { ...ADMISSION, baseRef: "stage" } };
      const { compare } = shared(passed, ended("failed", "tests-failed", stage));
      expect(await compare(listed)).toMatchObject([{ prNumber: 8, state: { verdict: { kind: "failed" } } }]);
      expect(await compare(listed)).toEqual([]);
      expect(await compare(alone)).toMatchObject([{ prNumber: 7, state: { verdict: { kind: "reused" } } }]);
    },
  );

  it("gives it back beside a fork's, whose page shows the commit's, and beside one with its base", async () => {
    const fork = { number: 8, baseRef: "stage", fork: true };
    expect(await shared(passed, over).compare([fork, { number: 7 }, { number: 6 }])).toMatchObject([{ prNumber: 7 }]);
  });
});

describe("a draft at a commit that another pull request has as well", () => {
  const drafted = requestIn(states.waiting("ready"), { id: "r1", prNumber: 8, task: null, baseRef: "stage" });
  const withDraft = [{ number: 7 }, { number: 8, baseRef: "stage", draft: true }];

  it("stands back for that one, which nobody would answer as long as it is a draft", async () => {
    const { store, compare } = shared(drafted);
    expect(await compare(withDraft)).toMatchObject([{ prNumber: 7, state: { kind: "authorizing" } }]);
    expect(store.request("r1")).toMatchObject({ state: { verdict: { kind: "superseded", reason: "draft-gave-way" } } });
  });

  it("is noticed by the word of that one", () => {
    const { compares, hear } = shared(drafted);
    hear(opens(7, BOB, "main"));
    expect(compares()).toBe(true);
  });

  it("waits where nobody else is there, or another draft", async () => {
    for (const listed of [withDraft.slice(1), withDraft.map((one) => ({ ...one, draft: true }))]) {
      const { store, compare } = shared(drafted);
      expect(await compare(listed)).toEqual([]);
      expect(store.request("r1")).toMatchObject({ state: { kind: "waiting" } });
      expect(await shared().compare(listed)).toHaveLength(1);
    }
  });

  it("is not asked about over the answer of that one, and once it is ready it is", async () => {
    const left = { id: "r2", prNumber: 8, generation: 2, baseRef: "stage", admission: null };
    const waited = ended("superseded", "draft-gave-way", { ...left, openedAt: T0 + 1 });
    for (const known of [[passed], [passed, waited]] as GateRequest[][]) {
      const { compare, heads } = shared(...known);
      await compare(withDraft);
      expect(await compare(withDraft)).toEqual([]);
      expect(heads().at(-1)).toMatchObject({ prNumber: 7, state: { kind: "concluded" } });
      expect(await compare(both)).toMatchObject([{ prNumber: 8, state: { kind: "authorizing" } }]);
    }
  });

  it("is asked about like any other where drafts are tested", async () => {
    const { store, compare } = shared(passed);
    store.rememberConfig("hash", configFrom({ drafts: "run" }));
    store.setMeta("last_config", "hash");
    expect(await compare(withDraft)).toMatchObject([{ prNumber: 8, state: { kind: "authorizing" } }]);
  });

  it("does not keep a green from that one: it cannot be merged", async () => {
    const over = ended("closed", "closed", { id: "r3", prNumber: 9, generation: 3, openedAt: T0 + 2 });
    const { compare, store } = shared(passed, refused, over);
    const opened = await compare(withDraft);
    expect(opened).toMatchObject([{ prNumber: 7, state: { verdict: { kind: "reused" } } }]);
    const told = store.auditAfter(0, 100).filter(({ act }) => act === "request.given-back");
    expect(told).toMatchObject([{ request_id: opened[0]?.id, reason: "given-back" }]);
  });
});

describe("the comparison with GitHub, where #7 was refused for the sake of #8 and its base", () => {
  const waved = ended("not-required", "docs-only");
  const forks = {
    ...ended("refused", "fork"),
    id: "r2",
    prNumber: 8,
    generation: 2,
    openedAt: T0 + 1,
    baseRef: "stage",
  };
  const heldBy = { prNumber: 8, baseRef: "stage" };
  const held = ended("refused", "fork", { id: "r3", generation: 3, openedAt: T0 + 2, heldBy });
  const known = [waved, { ...forks, admission: null }, held];
  const moved = [{ number: 7 }, { number: 8, fork: true }];

  it.each<[string, Listed[], Reading]>([
    ["is closed", alone, { state: "closed" }],
    ["has the same base by now", moved, { baseRef: "main" }],
  ])("asks about #7 again once #8 %s", async (_what, listed, reading) => {
    const opened = await shared(...known).compare(listed, { reads: { 8: reading } });
    expect(opened).toMatchObject([{ prNumber: 7, generation: 4, state: { kind: "authorizing" } }]);
  });

  it.each<[string, Listed[], Reading]>([
    ["#8 is listed there", [...alone, { number: 8, baseRef: "stage", fork: true }], "no answer"],
    ["only the list says that #8 has another base", moved, { baseRef: "stage" }],
    ["a read has no answer", moved, "no answer"],
  ])("leaves it where %s", async (_where, listed, reading) => {
    const opened = await shared(...known).compare(listed, { reads: { 8: reading } });
    expect(opened.filter(({ prNumber }) => prNumber === 7)).toEqual([]);
  });
});

describe("who told of another pull request at a head", () => {
  it("is remembered beside others, for the base that was told, and does not make it wait", async () => {
    const { gate, store, hear, compare } = shared(passed);
    hear(opens(8, BOB, "stage"));
    hear(opens(9, ALICE, "stage2"));
    const by = { "8": { ...BOB, baseRef: "stage" }, "9": { ...ALICE, baseRef: "stage2" } };
    // As a gate reads it that did not write it.
    expect(new Store(gate.sql).request("r1")).toMatchObject({ alsoBy: by });
    expect(store.request("r1")?.alsoPulls).toBeUndefined();
    expect(await compare([{ number: 7 }, { number: 8, baseRef: "stage" }])).toMatchObject([
      { prNumber: 8, actor: BOB },
    ]);
  });

  it("is nobody for a fork's, which opens nothing", () => {
    const { store, hear } = shared(passed);
    hear(opens(8, BOB, "stage", "999"));
    expect(store.request("r1")?.alsoBy).toBeUndefined();
    expect(store.taskOf("reconcile", "repository")).toBeNull();
  });

  it("is the actor where the wait for the first one ends", () => {
    const { gate, store, hear } = shared(requestIn(states.queued(), { task: null }));
    hear(opens(8, BOB, "main"));
    expect(store.request("r1")).toMatchObject({ alsoPulls: [8], alsoBy: { "8": BOB } });
    gate.stop("r1", verdict("closed", "closed", "It was closed."));
    expect(store.openRequests()).toMatchObject([{ prNumber: 8, actor: BOB, approvedBy: null }]);
  });
});

describe("a request that ends because its pull request has left the head", () => {
  const closed = verdict("closed", "closed", "It was closed.");
  const over: Partial<GateRequest> = { id: "r2", generation: 2, openedAt: T0 + 1, prNumber: 8, task: null };

  it("has GitHub compared with, which gives one its answer back before those that waited", async () => {
    const { gate, compare, compares, heads } = shared(passed, requestIn(states.queued(), { ...over, alsoPulls: [9] }));
    gate.stop("r2", closed);
    expect(heads()).toHaveLength(2);
    expect(compares()).toBe(true);
    expect(await compare([{ number: 7 }, { number: 9 }])).toMatchObject([
      { prNumber: 7, actor: ALICE, triggerSeen: true, state: { verdict: { kind: "reused" } } },
    ]);
  });

  it("does so where it is a recovery as well", async () => {
    const recovery: Partial<GateRequest> = { ...over, kind: "recovery", generation: 1 };
    const { gate, compare, compares } = shared(passed, requestIn(states.queued(), recovery));
    gate.stop("r2", closed);
    expect(compares()).toBe(true);
    expect(await compare(alone)).toMatchObject([{ kind: "pull-request", prNumber: 7, generation: 2 }]);
  });

  it("asks for nobody that was gone itself when it was last asked about", () => {
    const { gate, compares, heads } = shared(ended("closed", "closed"), requestIn(states.queued(), over));
    gate.stop("r2", closed);
    expect(heads()).toHaveLength(2);
    expect(compares()).toBe(false);
  });
});

describe("a re-run by somebody who may not spend", () => {
  const pressed: Partial<GateRequest> = { id: "r2", generation: 2, openedAt: T0 + 1, task: null, actor: BOB };
  const word = verdict("refused", "actor-not-permitted", "BOB may not.");

  it("has GitHub compared with at once, which gives the green back", async () => {
    const again = requestIn(states.queued(), { ...pressed, openedBy: { row: 4, actor: BOB } });
    const { gate, compare, compares } = shared(passed, again);
    gate.stop("r2", word);
    expect(compares()).toBe(true);
    expect(await compare(alone)).toMatchObject([{ prNumber: 7, generation: 3, counts: { pods: 0 } }]);
  });

  const failed = ended("failed", "tests-failed", { id: "r2", prNumber: 8, generation: 2, openedAt: T0 + 1 });
  const stage = { ...failed, admission: { ...ADMISSION, baseRef: "stage" } };
  it.each([
    ["on the check of #7 shows no green to #8, which was refused", 7, refused, [7, 8]],
    ["on the check of #7 shows no green to #8, which was refused and is older", 7, refused, [8, 7]],
    ["on the check of #8 shows no green to #8, which failed", 8, stage, [7, 8]],
    ["on the check of #8 shows no green to #8, which failed and is older", 8, stage, [8, 7]],
  ] as const)("%s", async (_what, prNumber, theirs, order) => {
    const by = { openedBy: { row: 4, actor: BOB }, admission: null };
    const later: Partial<GateRequest> = { ...pressed, ...by, id: "r3", generation: 3, openedAt: T0 + 2, prNumber };
    const { gate, compare } = shared(passed, theirs, requestIn(states.queued(), later));
    gate.stop("r3", word);
    const listed = order.map((number) => ({ number, baseRef: number === 8 ? "stage" : "main" }));
    expect(await compare(listed)).toEqual([]);
    // Once it has left, nothing keeps the green from #7.
    expect(await compare(alone)).toMatchObject([{ prNumber: 7, state: { verdict: { kind: "reused" } } }]);
  });

  it("is not an approval, after which others may still give theirs", () => {
    const approved = requestIn(states.queued(), { ...pressed, openedBy: { row: 3, actor: BOB } });
    const { gate, compares } = shared(ended("awaiting-approval", "awaiting-approval"), approved);
    gate.stop("r2", word);
    expect(compares()).toBe(false);
  });
});
