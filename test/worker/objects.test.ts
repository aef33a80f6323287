/** The small parts beside the gate and the account: standing of pods, memory of sweeps, rate of calls, the board's form. */
import { describe, expect, it } from "vitest";
import { OWED_AT_MOST, SweepMemory, type OwedRemoval } from "../../durable-objects/account/sweep-memory.ts";
import { Turns } from "../../durable-objects/account/turns.ts";
import { BOARD_LIMIT, boardClient, type Board } from "../../durable-objects/board-client.ts";
import { CallRate } from "../../durable-objects/gate/rate.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { podStanding } from "../../durable-objects/gate/standing.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import type { Attempt } from "../../shared/lifecycle/model.ts";
import { attemptAt, requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";
import { BOARD, T0 } from "./ports.ts";
import { ATTEMPT, POD, request } from "./request.ts";

describe("the standing of a pod at its gate", () => {
  const listedAt = T0 + 100_000;

  function store(attempt: Attempt): Store {
    const sql = nodeSql();
    migrate(sql);
    const made = new Store(sql);
    // Attempt a1 was there before a2 and is over.
    made.saveRequest(request({ ...ATTEMPT, id: "a1", number: 1 }));
    made.saveRequest(request(attempt));
    return made;
  }

  it("a pod that names the attempt whose create has no answer yet may be the one we bought", () => {
    const question = { podId: "p2", attemptId: "a2" };
    expect(podStanding(store(ATTEMPT), question, listedAt).kind).toBe("current");
  });

  it.each([
    ["its attempt is being closed and another follows", states.provisioning("teardown")],
    ["its request ends, and its run is still being cancelled", states.cleaning("cancel")],
    ["its run is read to its end", states.cleaning("await-run")],
    ["GitHub keeps its registration", states.cleaning("deregister")],
  ])("I1: a pod that appears after the look-up has found none is closed at first sight: %s", (_what, state) => {
    const sql = nodeSql();
    migrate(sql);
    const held = new Store(sql);
    const attempt = attemptAt("ambiguous");
    held.saveRequest(requestIn({ ...state, attempt }));
    expect(podStanding(held, { podId: "late", attemptId: attempt.id }, listedAt).kind).toBe("closed");
  });

  it.each([
    ["its create has no answer yet", states.provisioning("create", { stepSince: listedAt - 2_000 }), listedAt - 2_000],
    ["it is looked for", states.provisioning("look-up", { attempt: attemptAt("ambiguous", { createSentAt: 7 }) }), 7],
  ])(
    "N147: it is current while %s, and as old as our own create, whatever RunPod says of its age",
    (_what, state, since) => {
      const sql = nodeSql();
      migrate(sql);
      const held = new Store(sql);
      held.saveRequest(requestIn(state));
      const standing = podStanding(held, { podId: "new", attemptId: state.attempt?.id ?? "" }, listedAt);
      expect(standing).toEqual({ kind: "current", since });
    },
  );

  it("the attempt's pod is current by its id, whatever its tags say; a second one under its name is not", () => {
    const held = store({ ...ATTEMPT, pod: POD });
    expect(podStanding(held, { podId: "p2", attemptId: null }, listedAt).kind).toBe("current");
    expect(podStanding(held, { podId: "p3", attemptId: "a2" }, listedAt).kind).toBe("closed");
  });

  it("a pod that names an attempt that is over is closed, one nobody heard of is unknown", () => {
    expect(podStanding(store(ATTEMPT), { podId: "p1", attemptId: "a1" }, listedAt).kind).toBe("closed");
    expect(podStanding(store(ATTEMPT), { podId: "p1", attemptId: "elsewhere" }, listedAt).kind).toBe("unknown");
    expect(podStanding(store(ATTEMPT), { podId: "p1", attemptId: null }, listedAt).kind).toBe("unknown");
  });

  it.each([
    [listedAt - 1, "closed"],
    [listedAt, "current"],
    [listedAt + 1, "current"],
  ])("a pod proven gone at %i was already looked after when the list began at 100 s: %s", (provenAt, kind) => {
    const held = store(ATTEMPT);
    const paidFrom = T0 - 5_000;
    held.ledger(
      { kind: "open", attemptId: "a1", podId: "p1", gpuId: null, tier: "t", pricePerHour: null, paidFrom },
      "r1",
    );
    expect(held.openLedgerPodIds()).toEqual(["p1"]);
    held.ledger(
      {
        kind: "close",
        attemptId: "a1",
        podId: "p1",
        closedAt: provenAt - 10,
        provenAt,
        pricePerHour: null,
        estimateMicros: null,
        outcome: "",
      },
      "r1",
    );
    expect(held.openLedgerPodIds()).toEqual([]);
    expect(podStanding(held, { podId: "p1", attemptId: "a1" }, listedAt)).toEqual({ kind, since: paidFrom });
  });

  it.each([
    [null, "current"],
    [listedAt - 1, "closed"],
  ])("a stray whose removal ended at %s is %s", (doneAt, kind) => {
    const held = store(ATTEMPT);
    held.saveStray({ pod_id: "p1", why: "late", since: T0, done_at: doneAt, record: "{}" });
    expect(podStanding(held, { podId: "p1", attemptId: null }, listedAt).kind).toBe(kind);
  });
});

const NOTHING_OWED = { owed: [], unreadable: [] };

describe("the memory of sweeps", () => {
  const suspect = { p1: { suspicion: "unknown-pod", firstSeenAt: T0 } } as const;

  function memory(): SweepMemory {
    const sql = nodeSql();
    sql.exec("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)");
    return new SweepMemory(sql);
  }

  it("one at a time, until it ends or its lease is over", () => {
    const kept = memory();
    expect(kept.begin(T0, 90_000)).toEqual({ kind: "go", observations: {}, cursor: null, ...NOTHING_OWED });
    expect(kept.begin(T0 + 89_999, 90_000)).toEqual({ kind: "busy", since: T0 });
    expect(kept.begin(T0 + 90_000, 90_000).kind).toBe("go");
    kept.end({});
    expect(kept.begin(T0 + 90_001, 90_000).kind).toBe("go");
  });

  it("a clock that was set back does not lock it", () => {
    const kept = memory();
    kept.begin(T0, 90_000);
    expect(kept.begin(T0 - 3_600_000, 90_000).kind).toBe("go");
  });

  it("keeps exactly what the last sweep suspected", () => {
    const kept = memory();
    kept.begin(T0, 1);
    kept.end(suspect);
    expect(kept.begin(T0 + 1, 1)).toEqual({ kind: "go", observations: suspect, cursor: null, ...NOTHING_OWED });
    kept.end({}, "p7");
    expect(kept.begin(T0 + 2, 1)).toEqual({ kind: "go", observations: {}, cursor: "p7", ...NOTHING_OWED });
  });

  const owed = (podId: string, goneAt: number | null = null): OwedRemoval => ({
    podId,
    repositoryId: "101",
    attemptId: "r1-1",
    why: "reap-backstop",
    createdAt: T0,
    pricePerHour: 0.5,
    orderedAt: T0 + 5,
    goneAt,
  });
  const owedBy = (kept: SweepMemory, at: number) => {
    const start = kept.begin(at, 1);
    return start.kind === "go" ? start.owed : null;
  };

  it("keeps a deletion from before its order until a sweep says that it is settled", () => {
    const kept = memory();
    kept.begin(T0, 1);
    expect(kept.owe(owed("p1"))).toBe(true);
    // That sweep died: it never ended.
    expect(owedBy(kept, T0 + 10)).toEqual([owed("p1")]);
    expect(kept.goneSince("p1")).toBeNull();
    kept.end({}, null, [], [owed("p1", T0 + 9), owed("p2", T0 + 9)]);
    expect(kept.goneSince("p1")).toBe(T0 + 9);
    expect(owedBy(kept, T0 + 20)).toEqual([owed("p1", T0 + 9), owed("p2", T0 + 9)]);
    kept.end({}, null, ["p1", "p7"]);
    expect(owedBy(kept, T0 + 30)).toEqual([owed("p2", T0 + 9)]);
  });

  it("loses none to a sweep that was not told what is remembered", () => {
    const kept = memory();
    kept.owe(owed("p1"));
    kept.end({});
    expect(owedBy(kept, T0)).toEqual([owed("p1")]);
  });

  it("lets a later order of the same pod take nothing from what is known of it", () => {
    const kept = memory();
    kept.owe(owed("p1", T0 + 9));
    const less = { ...owed("p1"), attemptId: null, createdAt: null, pricePerHour: null, orderedAt: T0 + 60 };
    expect(kept.owe(less)).toBe(true);
    expect(owedBy(kept, T0)).toEqual([{ ...owed("p1", T0 + 9), orderedAt: T0 + 60 }]);
    const more = { ...owed("p1", T0 + 70), createdAt: T0 + 1, pricePerHour: 0.6, orderedAt: T0 + 60 };
    kept.end({}, null, [], [more]);
    expect(owedBy(kept, T0)).toEqual([{ ...more, createdAt: T0 }]);
    expect(kept.goneSince("p1")).toBe(T0 + 70);
  });

  it("has an end, and says what found no room", () => {
    const kept = memory();
    const many = Array.from({ length: OWED_AT_MOST }, (_, index) => owed(`p${index}`));
    expect(kept.end({}, null, [], many)).toEqual([]);
    expect(kept.owe(owed("late"))).toBe(false);
    expect(kept.end({}, null, [], [owed("p1", T0 + 9), owed("late")])).toEqual(["late"]);
    expect(kept.end({}, null, ["p1"], [owed("late")])).toEqual([]);
    expect(owedBy(kept, T0)).toHaveLength(OWED_AT_MOST);
  });

  it("a damaged row costs the others nothing, and still names its pod", () => {
    const sql = nodeSql();
    sql.exec("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)");
    const kept = new SweepMemory(sql);
    kept.owe(owed("p1"));
    kept.owe(owed("p2"));
    sql.exec("UPDATE meta SET value = '{' WHERE key = 'owed:p1'");
    expect(kept.begin(T0, 1)).toMatchObject({ owed: [owed("p2")], unreadable: ["p1"] });
    expect(kept.goneSince("p1")).toBeNull();
    kept.end({}, null, ["p1"]);
    expect(kept.begin(T0, 1)).toMatchObject({ owed: [owed("p2")], unreadable: [] });
  });
});

describe("the memory of duties", () => {
  function turns(): Turns {
    const sql = nodeSql();
    sql.exec("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)");
    return new Turns(sql);
  }

  it("gives each duty its own turn, and what it remembered at its last one", () => {
    const kept = turns();
    expect(kept.take("a", T0, 60_000)).toEqual({ due: true, memory: null });
    kept.keep("a", "of a", false);
    expect(kept.take("b", T0, 60_000)).toEqual({ due: true, memory: null });
    expect(kept.take("a", T0 + 59_999, 60_000)).toEqual({ due: false, nextAt: T0 + 60_000 });
    expect(kept.take("a", T0 + 60_000, 60_000)).toEqual({ due: true, memory: "of a" });
  });

  it("gives another turn at once to a duty that has work left, and after a clock was set back", () => {
    const kept = turns();
    kept.take("a", T0, 60_000);
    kept.keep("a", "half", true);
    expect(kept.take("a", T0 + 1, 60_000)).toEqual({ due: true, memory: "half" });
    expect(kept.take("a", T0 - 3_600_000, 60_000).due).toBe(true);
  });
});

describe("the rate of a pod's calls", () => {
  it("lets ten through in any minute, counts each attempt by itself", () => {
    const rate = new CallRate({ calls: 10, windowMs: 60_000 });
    const taken = Array.from({ length: 12 }, (_none, index) => rate.take("a1", T0 + index * 1_000));
    expect(taken.filter(Boolean)).toHaveLength(10);
    expect(rate.take("a2", T0 + 12_000)).toBe(true);
    expect(rate.take("a1", T0 + 59_999)).toBe(false);
    expect(rate.take("a1", T0 + 60_001)).toBe(true);
    expect(rate.take("a1", T0 + 60_002)).toBe(false);
  });
});

describe("the board's form", () => {
  /** The client against a namespace that keeps the text it is given, and the header it came in. */
  function kept() {
    let text: string | null = null;
    const headers: string[] = [];
    const stub = {
      async fetch(asked: Request) {
        headers.push(asked.headers.get("do-content") ?? "");
        if (asked.url.endsWith("/read")) return Response.json({ text });
        [text] = JSON.parse(headers.at(-1) ?? "[]") as [string];
        return Response.json({ written: true });
      },
    };
    const namespace = { idFromName: (name: string) => name, get: () => stub } as unknown as Env["FLEET_BOARD"];
    return { client: boardClient(namespace), headers, put: (value: string) => (text = value) };
  }

  it("comes back as it was written, and travels as plain ASCII", async () => {
    const { client, headers } = kept();
    const board = { ...BOARD, problems: ["Läuft nicht \u2028 🦀"] };
    expect(await client.write(board)).toEqual({ ok: true, value: null });
    expect(headers[0]).toMatch(/^[\x20-\x7e]*$/);
    expect(await client.read()).toEqual({ ok: true, value: board });
  });

  it("of very much keeps what fits: the gates with work, and how many more there are", async () => {
    const { client, headers } = kept();
    const gates = Array.from({ length: 5_000 }, (_none, index) => ({
      id: String(10_000_000 + index),
      open: index === 4_321 ? 3 : 0,
      overdue: 0,
      answered: index !== 1_234,
    }));
    const problems = Array.from({ length: 1_000 }, () => "ü".repeat(5_000));
    const board: Board = { ...BOARD, gates, problems };
    expect((await client.write(board)).ok).toBe(true);
    expect(headers[0]?.length).toBeLessThan(2 * BOARD_LIMIT);
    const read = await client.read();
    if (!read.ok || read.value === null) throw new Error("no board");
    expect(read.value.gates.slice(0, 2).map((gate) => gate.id)).toEqual(["10001234", "10004321"]);
    expect(read.value.gates.length + read.value.moreGates).toBe(5_000);
  });

  it("of another form is a problem, not a crash", async () => {
    const { client, put } = kept();
    put(`{"at":"yesterday"}`);
    expect(await client.read()).toMatchObject({ ok: false, error: { reason: "unreadable" } });
    put("no json");
    expect(await client.read()).toMatchObject({ ok: false, error: { reason: "unreadable" } });
  });
});
