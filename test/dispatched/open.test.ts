/**
 * Goal: a maintainer's dispatched run opens exactly one request, joins what is under way instead of buying it twice, and a
 * token's id is good once. Method: the real gate on its real schema; nothing outside is ever asked, because the loop does
 * not run here.
 */
import { describe, expect, it } from "vitest";
import type { Dispatched, DispatchedAsk } from "../../durable-objects/gate/dispatched.ts";
import { Gate } from "../../durable-objects/gate/gate.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import type { GateRequest, RequestState } from "../../shared/lifecycle/model.ts";
import type { Delivery } from "../../shared/lifecycle/signal.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import { shaOf } from "../github/stub.ts";
import { states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.parse("2026-11-30T12:00:00Z");
const HEAD = shaOf("a");
const MERGED = shaOf("d");
const OTHER = shaOf("e");
const MIRA = { id: "501", login: "mira" };
const REPOSITORY = { id: "101", owner: "octo", name: "engine" };

function asked(name: string): never {
  throw new Error(`nothing outside may be asked here: ${name}`);
}

function gateAt(sql = nodeSql()) {
  // Not begun by this gate: its ids carry no epoch, and are the same every time.
  migrate(sql);
  let now = T0;
  const ports: GatePorts = {
    sql,
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: { next: () => 0.5, bytes: (length) => new Uint8Array(length) },
    account: {
      listPods: () => asked("listPods"),
      market: () => asked("market"),
      reserve: () => asked("reserve"),
      commit: () => asked("commit"),
      release: () => asked("release"),
      goneSince: () => asked("goneSince"),
      register: () => asked("register"),
    },
    // Whatever is called on it, whatever it is called: the object alone may be handed on.
    runpod: new Proxy({} as GatePorts["runpod"], { get: (_, name) => () => asked(`runpod.${String(name)}`) }),
    github: () => asked("github"),
    resolveImage: () => asked("image"),
    publicUrl: "https://gate.test",
    deployment: "test",
    appId: "1234",
    log: () => undefined,
  };
  return { gate: new Gate(ports), sql, pass: (ms: number) => (now += ms) };
}

const RECOVERY: DispatchedAsk = { kind: "recovery", prNumber: 7, headSha: HEAD };
const VALIDATION: DispatchedAsk = { kind: "validation", revision: MERGED, headSha: MERGED };
const from = (runId: string, ask: DispatchedAsk): Dispatched => ({ repository: REPOSITORY, runId, actor: MIRA, ask });

const opened: Delivery = {
  guid: "delivery-1",
  event: "pull_request",
  repository: REPOSITORY,
  installationId: "77",
  signal: {
    kind: "pull-request",
    action: "opened",
    prNumber: 7,
    headSha: HEAD,
    headRepositoryId: "101",
    draft: false,
    label: null,
    sender: MIRA,
  },
};

/** Puts a request into a state as the gate would have stored it. */
function put(gate: Gate, id: string, state: RequestState): void {
  const request = gate.store.request(id);
  if (request === null) throw new Error(`no request ${id}`);
  gate.store.saveRequest({ ...request, state });
}

const concluded: RequestState = {
  kind: "concluded",
  at: T0,
  verdict: verdict("infrastructure", "capacity", "None was free."),
};
const preparing: RequestState = {
  kind: "preparing",
  step: "watch",
  since: T0,
  stepSince: T0,
  run: { runId: "1", attempt: 1 },
  hold: null,
  backToPreparing: 0,
  vanished: 0,
};

const acts = (gate: Gate, id: string): readonly string[] =>
  gate.store.unsealedAudit(100).flatMap((row) => (row.request_id === id ? [row.act] : []));

function only(requests: readonly GateRequest[]): GateRequest {
  const [request, ...rest] = requests;
  if (request === undefined || rest.length > 0) throw new Error(`one request expected, not ${requests.length}`);
  return request;
}

describe("a recovery", () => {
  it("opens a request for the head, with the maintainer as actor and as the word that start: asks for", () => {
    const { gate } = gateAt();
    expect(gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "opened", requestId: "r1" });
    expect(gate.store.request("r1")).toMatchObject({
      kind: "recovery",
      prNumber: 7,
      headSha: HEAD,
      revision: null,
      generation: 1,
      openedBy: { row: 6, actor: MIRA },
      actor: MIRA,
      approvedBy: MIRA,
      state: { kind: "authorizing" },
    });
    expect(acts(gate, "r1")).toContain("request.dispatched");
  });

  it("works for a repository that no webhook ever named", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", RECOVERY));
    expect(gate.store.repository()).toEqual({ repository: REPOSITORY, installationId: null });
  });

  it("the same run asking again gets the same request, also after a restart", () => {
    const { gate, sql } = gateAt();
    gate.openDispatched(from("7001", RECOVERY));
    expect(gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "repeated", requestId: "r1" });
    put(gate, "r1", concluded);
    expect(gateAt(sql).gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "repeated", requestId: "r1" });
  });

  it("another run joins the open one, and the audit says who asked again", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", RECOVERY));
    expect(gate.openDispatched(from("7002", RECOVERY))).toEqual({ kind: "joined", requestId: "r1" });
    expect(acts(gate, "r1")).toContain("request.asked-again");
    expect(gate.dispatchedRequest("7002", "r1")?.id).toBe("r1");
  });

  it("after the last one is concluded it is the next generation", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", RECOVERY));
    put(gate, "r1", concluded);
    expect(gate.openDispatched(from("7002", RECOVERY))).toEqual({ kind: "opened", requestId: "r2" });
    expect(gate.store.request("r2")?.generation).toBe(2);
  });

  it("joins the pull request's own request once that has dispatched anything: nothing is built or bought twice", () => {
    const { gate } = gateAt();
    gate.accept(opened);
    put(gate, "r1", preparing);
    expect(gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "joined", requestId: "r1" });
    expect(only(gate.store.openRequests()).id).toBe("r1");
  });

  it.each([preparing, states.queued(), states.revalidating("plan"), states.provisioning("reserve")])(
    "gives the request it joins the word to keep its pod, and the name of who said it ($kind)",
    (state) => {
      const { gate } = gateAt();
      gate.accept(opened);
      put(gate, "r1", state);
      expect(gate.openDispatched({ ...from("7001", RECOVERY), keepMinutes: 30 })).toEqual({
        kind: "joined",
        requestId: "r1",
        keep: { kind: "noted" },
      });
      const { keep } = only(gate.store.openRequests());
      expect(keep).toMatchObject({ by: MIRA.login, duration: 30 * 60_000, failuresOnly: false });
      expect(acts(gate, "r1")).toEqual(expect.arrayContaining(["request.asked-again", "pod.keep-asked"]));
    },
  );

  it.each([states.executing(), states.provisioning("create"), states.cleaning("delete")])(
    "is told that the word comes too late for the pod there is, and so is the audit ($kind)",
    (state) => {
      const { gate } = gateAt();
      gate.accept(opened);
      put(gate, "r1", state);
      const answer = gate.openDispatched({ ...from("7001", RECOVERY), keepMinutes: 30 });
      expect(answer).toMatchObject({ kind: "joined", requestId: "r1", keep: { kind: "refused" } });
      expect(only(gate.store.openRequests()).keep).toBeUndefined();
      expect(acts(gate, "r1")).toContain("pod.keep-refused");
      // The same run again asks for nothing more.
      expect(gate.openDispatched({ ...from("7001", RECOVERY), keepMinutes: 30 })).toEqual({
        kind: "repeated",
        requestId: "r1",
      });
      expect(acts(gate, "r1").filter((act) => act === "pod.keep-refused")).toHaveLength(1);
    },
  );

  it("takes over from a request that has only waited", () => {
    const { gate } = gateAt();
    gate.accept(opened);
    put(gate, "r1", { kind: "waiting", for: "trigger", since: T0, until: T0 + 1000 });
    expect(gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "opened", requestId: "r2" });
    expect(gate.store.request("r1")?.state).toMatchObject({
      kind: "concluded",
      verdict: { kind: "superseded", reason: "newer-request" },
    });
    expect(only(gate.store.openRequests()).id).toBe("r2");
  });

  it("follows a concluded request of the pull request with one of its own", () => {
    const { gate } = gateAt();
    gate.accept(opened);
    put(gate, "r1", concluded);
    expect(gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "opened", requestId: "r2" });
    expect(gate.store.request("r1")?.state).toEqual(concluded);
  });
});

describe("a pull request whose last answer was a recovery's", () => {
  const asListed = {
    kind: "pull-request",
    prNumber: 7,
    headSha: HEAD,
    generation: 1,
    row: 1,
    actor: null,
    approvedBy: null,
  } as const;

  function recovered(word: Verdict): Gate {
    const { gate, pass } = gateAt();
    gate.accept(opened);
    put(gate, "r1", concluded);
    pass(1_000);
    gate.openDispatched(from("7001", RECOVERY));
    put(gate, "r2", { kind: "concluded", at: T0 + 1_000, verdict: word });
    return gate;
  }

  it.each([
    ["closed", verdict("closed", "closed", "It was closed."), "r3"],
    ["superseded", verdict("superseded", "head-moved", "The head moved."), "r3"],
    ["passed", verdict("passed", "tests-passed", "They passed."), null],
  ] as const)("gets another where that was %s, also when no webhook tells of it", (_what, word, id) => {
    const gate = recovered(word);
    expect(gate.openIfUnknown(asListed)).toBe(id);
    if (id !== null) expect(gate.store.request(id)).toMatchObject({ kind: "pull-request", generation: 2 });
  });

  it("and so does another pull request at the commit, when the recovery it was shared with ends", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", RECOVERY));
    const second = { ...opened.signal, prNumber: 8 } as Delivery["signal"];
    expect(gate.accept({ ...opened, guid: "delivery-8", signal: second }).actions).toEqual(["also r1"]);
    expect(gate.stop("r1", verdict("closed", "closed", "It was closed."))).toBe(true);
    expect(only(gate.store.requestsOfHead(HEAD, "pull-request"))).toMatchObject({ prNumber: 8, generation: 1 });
  });
});

describe("a validation", () => {
  it("opens a request without a pull request, for one commit", () => {
    const { gate } = gateAt();
    expect(gate.openDispatched(from("7001", { ...VALIDATION, headSha: HEAD }))).toEqual({
      kind: "opened",
      requestId: "r1",
    });
    expect(gate.store.request("r1")).toMatchObject({
      kind: "validation",
      prNumber: null,
      headSha: HEAD,
      revision: MERGED,
    });
  });

  it("of the same revision joins; of another one for the same check it is told to wait", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", { ...VALIDATION, headSha: HEAD }));
    expect(gate.openDispatched(from("7002", { ...VALIDATION, headSha: HEAD }))).toEqual({
      kind: "joined",
      requestId: "r1",
    });
    expect(gate.store.request("r1")?.keep).toBeUndefined();
    const keeping = { ...from("7004", { ...VALIDATION, headSha: HEAD }), keepMinutes: 20 };
    expect(gate.openDispatched(keeping)).toMatchObject({ kind: "joined", keep: { kind: "noted" } });
    expect(gate.store.request("r1")?.keep?.duration).toBe(20 * 60_000);
    const other = from("7003", { kind: "validation", revision: OTHER, headSha: HEAD });
    expect(gate.openDispatched(other)).toEqual({ kind: "busy", requestId: "r1" });
    // Nothing is remembered of a run that was told to wait: it may ask again.
    put(gate, "r1", concluded);
    expect(gate.openDispatched(other)).toEqual({ kind: "opened", requestId: "r2" });
  });

  it("is nobody's pull request: a push to one supersedes nothing here", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", { ...VALIDATION, headSha: HEAD }));
    gate.accept({
      ...opened,
      signal: { ...opened.signal, kind: "pull-request", action: "closed" } as Delivery["signal"],
    });
    expect(gate.store.request("r1")?.state.kind).toBe("authorizing");
  });

  it("re-run from its check tests the same revision again", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", { ...VALIDATION, headSha: HEAD }));
    put(gate, "r1", concluded);
    const request = gate.store.request("r1");
    if (request !== null) gate.store.saveRequest({ ...request, check: { ...request.check, checkRunId: "900" } });
    gate.accept({
      ...opened,
      guid: "delivery-2",
      event: "check_run",
      signal: {
        kind: "check-run",
        action: "rerequested",
        checkRunId: "900",
        name: "CI GPU gate",
        headSha: HEAD,
        externalId: "r1:0",
        appId: "1234",
        identifier: null,
        sender: MIRA,
      },
    });
    expect(gate.store.request("r2")).toMatchObject({ kind: "validation", revision: MERGED, generation: 2 });
  });
});

describe("what a run may read", () => {
  it("is the request it asked for, and no other", () => {
    const { gate } = gateAt();
    gate.openDispatched(from("7001", RECOVERY));
    gate.openDispatched(from("7002", VALIDATION));
    expect(gate.dispatchedRequest("7001", "r1")).toMatchObject({ id: "r1", state: "authorizing" });
    expect(gate.dispatchedRequest("7001", "r2")).toBeNull();
    expect(gate.dispatchedRequest("7003", "r1")).toBeNull();
  });
});

describe("a token's id", () => {
  it("is fresh once, also after a restart, until it is too old for anything", () => {
    const { gate, sql, pass } = gateAt();
    expect(gate.useToken("jti-1", T0 + 1000)).toBe("fresh");
    expect(gate.useToken("jti-1", T0 + 1000)).toBe("spent");
    expect(gateAt(sql).gate.useToken("jti-1", T0 + 1000)).toBe("spent");
    expect(gate.useToken("jti-2", T0 + 1000)).toBe("fresh");
    pass(1001);
    gate.useToken("jti-3", T0 + 9000);
    // What is forgotten are only ids whose tokens nothing accepts any more.
    expect(sql.exec(`SELECT jti FROM tokens ORDER BY jti`)).toEqual([{ jti: "jti-3" }]);
  });
});

describe("a gate whose state was written by a newer version", () => {
  it("opens nothing and accepts no token", () => {
    const sql = nodeSql();
    gateAt(sql);
    sql.exec(`UPDATE schema_version SET version = 99`);
    const { gate } = gateAt(sql);
    expect(gate.openDispatched(from("7001", RECOVERY))).toEqual({ kind: "read-only" });
    expect(gate.useToken("jti-1", T0 + 1000)).toBe("read-only");
    expect(gate.dispatchedRequest("7001", "r1")).toBeNull();
  });
});
