/** What a signal opens, where the design's table is silent or an answer is about the past (docs/adr/what-opens-a-request.md). */
import { describe, expect, it } from "vitest";
import type { CodesOf } from "../../shared/audit/reasons.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { heardFrom, needsAnswer } from "../../shared/lifecycle/needs-answer.ts";
import { route, type RouteAction, type RouteView } from "../../shared/lifecycle/route.ts";
import type { Signal } from "../../shared/lifecycle/signal.ts";
import { verdict, type VerdictKind } from "../../shared/lifecycle/verdict.ts";
import { ADMISSION, ALICE, BOB, HEAD, requestIn, states, T0, TERMS } from "./fixtures.ts";

type Change = Partial<GateRequest>;

function ended<K extends VerdictKind>(kind: K, reason: CodesOf<K>, change: Change = {}): GateRequest {
  return requestIn({ kind: "concluded", at: T0, verdict: verdict(kind, reason, "It ended.") }, change);
}

/** As the comparison with GitHub asks. */
const gone = (...numbers: readonly number[]) => ({ hasLeft: (other: number) => numbers.includes(other) });

function viewOf(...requests: readonly GateRequest[]): RouteView {
  return {
    appId: "1",
    repositoryId: "101",
    ofHead: (headSha, kind) => requests.filter((one) => one.headSha === headSha && one.kind === kind),
    ofPull: (prNumber) => requests.filter((one) => one.prNumber === prNumber),
    open: () => requests.filter((one) => one.state.kind !== "concluded"),
    ofRun: (runId) => (runId === "900" ? (requests[0] ?? null) : null),
    ofCheckRun: () => null,
    ofRunner: () => null,
  };
}

function pull(action: "opened" | "synchronize" | "reopened" | "closed", prNumber = 7): Signal {
  const parts = { headRepositoryId: "101", draft: false, label: null, sender: BOB };
  return { kind: "pull-request", action, prNumber, headSha: HEAD, ...parts };
}

function run(change: Partial<Extract<Signal, { kind: "workflow-run" }>> = {}): Signal {
  return {
    kind: "workflow-run",
    action: "in_progress",
    runId: "500",
    runAttempt: 1,
    workflowPath: TERMS.workflows.trigger ?? "",
    event: "pull_request",
    status: "in_progress",
    conclusion: null,
    headSha: HEAD,
    headBranch: "topic",
    headRepositoryId: "101",
    headRepositoryOwner: "acme",
    triggeringActor: BOB,
    ...change,
  };
}

const opened = (actions: readonly RouteAction[]) =>
  actions.flatMap((one) => (one.kind === "open" ? [one.request] : []));

describe("an answer for the same commit", () => {
  it("that was only about a head that was away does not count when the head comes back", () => {
    const request = ended("superseded", "head-moved");
    expect(opened(route(pull("synchronize"), viewOf(request)))).toMatchObject([{ generation: 2, row: 1, actor: BOB }]);
  });

  it("that the pull request was closed counts until it is reopened, whatever else comes late", () => {
    const request = ended("closed", "closed");
    expect(opened(route(pull("synchronize"), viewOf(request)))).toEqual([]);
    expect(opened(route(pull("reopened"), viewOf(request)))).toMatchObject([{ generation: 2 }]);
  });

  it.each([
    ["a fork's refusal", ended("refused", "fork", { prNumber: 6 }), true],
    ["'not required' for another pull request", ended("not-required", "docs-only", { prNumber: 6 }), true],
    ["'not required' for this one", ended("not-required", "docs-only"), false],
    ["a refusal of this one", ended("refused", "author-not-permitted"), false],
    ["a test of it", ended("passed", "tests-passed", { prNumber: 6 }), false],
    ["a failed test of it", ended("failed", "tests-failed", { prNumber: 6 }), false],
    ["a newer request's", ended("superseded", "newer-request"), false],
    ["that the App was gone", ended("cancelled", "app-removed"), true],
    ["that a user cancelled it", ended("cancelled", "cancelled-by-user"), false],
  ] as const)("%s: another is needed = %s", (_what, request, needed) => {
    expect(needsAnswer([request], { prNumber: 7 })).toBe(needed);
  });

  it("is not asked for in turns by two pull requests", () => {
    const both = [ended("refused", "fork", { prNumber: 6 }), ended("not-required", "docs-only", { generation: 2 })];
    expect(needsAnswer(both, { prNumber: 6 })).toBe(false);
    expect(needsAnswer(both, { prNumber: 7 })).toBe(false);
  });

  it("is shared with the second pull request while it is being made", () => {
    const request = requestIn(states.queued());
    expect(route(pull("opened", 8), viewOf(request))).toEqual([{ kind: "also", requestId: "r1", prNumber: 8 }]);
  });
});

describe("what is not green, said of a pull request that is gone from the head", () => {
  const own = ended("passed", "tests-passed", { admission: { ...ADMISSION, baseRef: "main" } });
  const other = { id: "r2", prNumber: 8, generation: 2, openedAt: T0 + 1 };
  const asking = { prNumber: 7, baseRef: "main" };

  it.each([
    ["a refusal", ended("refused", "author-not-permitted", other)],
    ["a wait for approval", ended("awaiting-approval", "awaiting-approval", other)],
    [
      "a failed test for another base",
      ended("failed", "tests-failed", { ...other, baseRef: "stage", admission: null }),
    ],
  ] as const)("is asked about once more: %s", (_what, word) => {
    expect(needsAnswer([own, word], { ...asking, ...gone() })).toBe(false);
    expect(needsAnswer([own, word], { ...asking, ...gone(8) })).toBe(true);
    expect(needsAnswer([own, word], asking)).toBe(false);
  });

  it("stands where the commit failed for the same base", () => {
    const failed = ended("failed", "tests-failed", { ...other, admission: { ...ADMISSION, baseRef: "main" } });
    expect(needsAnswer([own, failed], { ...asking, ...gone(8) })).toBe(false);
  });

  it("is compared with GitHub when that is heard, and only where others have the head", () => {
    const refused = ended("refused", "author-not-permitted", other);
    const elsewhere = { ...pull("synchronize", 8), headSha: "b".repeat(40) } as Signal;
    for (const signal of [pull("closed", 8), elsewhere]) {
      expect(route(signal, viewOf(own, refused))).toContainEqual({ kind: "reconcile" });
      expect(route(signal, viewOf(refused))).not.toContainEqual({ kind: "reconcile" });
      const green = { ...own, openedAt: T0 + 2 };
      expect(route(signal, viewOf(refused, green))).not.toContainEqual({ kind: "reconcile" });
    }
    const waits = { ...refused, alsoBy: { "9": ALICE } };
    expect(route(pull("closed", 8), viewOf(waits))).toContainEqual({ kind: "reconcile" });
  });
});

describe("a fork's pull request at a commit that was tested", () => {
  const passed = ended("passed", "tests-passed", { admission: { ...ADMISSION, baseRef: "main" } });
  const waved = ended("not-required", "docs-only", { admission: { ...ADMISSION, baseRef: "main" } });
  const asking = { prNumber: 8, baseRef: "stage" };

  it("is the same change for the same base: what needs no test there needs none here", () => {
    expect(needsAnswer([waved], { prNumber: 8, baseRef: "main" })).toBe(false);
    const same = { ...pull("opened", 8), headRepositoryId: "999", baseRef: "main" } as Signal;
    expect(route(same, viewOf(waved))).toMatchObject([{ kind: "note" }]);
    expect(opened(route({ ...same, baseRef: "stage" } as Signal, viewOf(waved)))).toMatchObject([{ prNumber: 8 }]);
  });

  it("has nothing to earn for another base, and takes nothing away", () => {
    expect(needsAnswer([passed], { ...asking, fork: true })).toBe(false);
    expect(needsAnswer([passed], { ...asking, fork: false })).toBe(true);
    const opens = { ...pull("opened", 8), baseRef: "stage" } as Signal;
    expect(route({ ...opens, headRepositoryId: "999" } as Signal, viewOf(passed))).toMatchObject([{ kind: "note" }]);
    expect(route(opens, viewOf(passed))).toContainEqual({ kind: "reconcile" });
  });

  it("is asked about where no test was needed: what is code for its base must not be green", () => {
    expect(needsAnswer([waved], { ...asking, fork: true })).toBe(true);
  });

  it("gives back what was earned where its refusal came to stand over it", () => {
    const second = { id: "r2", prNumber: 8, generation: 2, openedAt: T0 + 1, baseRef: "stage", admission: null };
    const refusal = ended("refused", "fork", second);
    expect(needsAnswer([passed, refusal], { prNumber: 7, baseRef: "main", fork: false })).toBe(true);
    expect(needsAnswer([waved, refusal], { prNumber: 7, baseRef: "main", fork: false })).toBe(false);
    expect(needsAnswer([passed, refusal], { prNumber: 8, baseRef: "stage", fork: true })).toBe(false);
  });
});

describe("who caused a second pull request at a head", () => {
  const passed = ended("passed", "tests-passed", { admission: { ...ADMISSION, baseRef: "main" } });
  const opens = { ...pull("opened", 8), baseRef: "stage" } as Signal;

  it("is remembered with the answer that stood, for the base that was told", () => {
    const heard = { kind: "heard", requestId: "r1", prNumber: 8, baseRef: "stage" };
    expect(route(opens, viewOf(passed))).toContainEqual(heard);
    expect(route({ ...opens, action: "reopened" } as Signal, viewOf(passed))).not.toContainEqual(heard);
    const with8 = { ...passed, alsoBy: { "8": { ...BOB, baseRef: "stage" } } };
    expect(heardFrom([with8], { prNumber: 8, baseRef: "stage" })).toEqual(BOB);
    expect(heardFrom([with8], { prNumber: 8 })).toEqual(BOB);
    expect(heardFrom([with8], { prNumber: 8, baseRef: "main" })).toBeNull();
    expect(heardFrom([with8], { prNumber: 9, baseRef: "stage" })).toBeNull();
  });
});

it("re-run asks about the pull request whose check was pressed", () => {
  const own = ended("passed", "tests-passed");
  const other = ended("refused", "fork", { id: "r2", prNumber: 8, generation: 2, openedAt: T0 + 1 });
  const view = { ...viewOf(own, other), ofCheckRun: (id: string) => (id === "1" ? own : null) };
  const press = (checkRunId: string): Signal => ({
    kind: "check-run",
    action: "rerequested",
    checkRunId,
    name: "CI GPU gate",
    headSha: HEAD,
    externalId: null,
    appId: "1",
    identifier: null,
    sender: BOB,
  });
  expect(opened(route(press("1"), view))).toMatchObject([{ prNumber: 7, generation: 3, actor: BOB }]);
  expect(opened(route(press("2"), view))).toMatchObject([{ prNumber: 8, generation: 3 }]);
});

describe("a recovery's answer is one for its pull request", () => {
  const failed = ended("failed", "tests-failed");
  const recovery = <K extends VerdictKind>(kind: K, reason: CodesOf<K>): GateRequest =>
    ended(kind, reason, { id: "r2", kind: "recovery", openedAt: T0 + 1 });

  it("so one that was closed is none when it is reopened", () => {
    const actions = route(pull("reopened"), viewOf(failed, recovery("closed", "closed")));
    expect(opened(actions)).toMatchObject([{ kind: "pull-request", generation: 2, actor: BOB }]);
  });

  it("so one that was superseded is none when the head comes back", () => {
    const actions = route(pull("synchronize"), viewOf(failed, recovery("superseded", "head-moved")));
    expect(opened(actions)).toMatchObject([{ kind: "pull-request", generation: 2 }]);
  });

  it("and one that tested the head stands, whatever was said before it", () => {
    const gaveWay = ended("superseded", "head-moved");
    expect(opened(route(pull("synchronize"), viewOf(gaveWay, recovery("passed", "tests-passed"))))).toEqual([]);
  });

  it("and one under way is shared by a second pull request, and approved by nobody once more", () => {
    const busy = requestIn(states.queued(), { id: "r2", kind: "recovery", openedAt: T0 + 1 });
    const waits = ended("awaiting-approval", "awaiting-approval", {
      terms: { ...TERMS, start: "label", startWord: "gpu" },
    });
    expect(route(pull("opened", 8), viewOf(waits, busy))).toEqual([{ kind: "also", requestId: "r2", prNumber: 8 }]);
    const labeled = { ...pull("opened"), action: "labeled", label: "gpu" } as Signal;
    const rented = { ...busy, terms: waits.terms };
    expect(opened(route(labeled, viewOf(waits, rented)))).toEqual([]);
    const button: Signal = {
      kind: "check-run",
      action: "requested_action",
      checkRunId: "1",
      name: "CI GPU gate",
      headSha: HEAD,
      externalId: null,
      appId: "1",
      identifier: "approve-gpu-run",
      sender: BOB,
    };
    expect(route(button, viewOf(waits, rented))).toEqual([{ kind: "asked", requestId: "r2", row: 3, actor: BOB }]);
  });
});

describe("the word of who caused a commit, later than the comparison with GitHub", () => {
  const unknown = { actor: null, openedBy: { row: 1, actor: null } };
  const waits = ended("awaiting-approval", "actor-unknown", unknown);

  it.each(["opened", "synchronize"] as const)("lets the request begin again, as whoever it was: %s", (action) => {
    expect(opened(route(pull(action), viewOf(waits)))).toMatchObject([{ generation: 2, row: 1, actor: BOB }]);
  });

  it("is not that of a later act, nor of another pull request", () => {
    expect(opened(route(pull("reopened"), viewOf(waits)))).toEqual([]);
    expect(opened(route(pull("opened", 8), viewOf(waits)))).toEqual([]);
  });

  it("is told to a request that is still looked into, and to none that goes on by another's word", () => {
    const open = requestIn(states.authorizing(), unknown);
    const told = { kind: "actor", requestId: "r1", actor: BOB };
    expect(route(pull("synchronize"), viewOf(open))).toContainEqual(told);
    for (const other of [
      requestIn(states.authorizing()),
      requestIn(states.queued(), unknown),
      requestIn(states.waiting("trigger"), { ...unknown, actor: ALICE }),
    ]) {
      expect(route(pull("synchronize"), viewOf(other))).toEqual([{ kind: "hint", requestId: "r1" }]);
    }
  });
});

describe("the trigger workflow that starts late", () => {
  const waited = ended("awaiting-approval", "trigger-not-started", { terms: TERMS });

  it("lets the request begin again, as whoever started it", () => {
    const [request] = opened(route(run(), viewOf(waited)));
    expect(request).toMatchObject({ generation: 2, row: 2, actor: BOB, approvedBy: null });
  });

  it.each([
    ["another workflow", run({ workflowPath: ".github/workflows/other.yml" })],
    ["its end", run({ action: "completed" })],
    ["another event", run({ event: "push" })],
  ])("is not %s", (_what, signal) => {
    expect(opened(route(signal, viewOf(waited)))).toEqual([]);
  });

  it("opens nothing where the head has its answer", () => {
    expect(opened(route(run(), viewOf(ended("passed", "tests-passed"))))).toEqual([]);
  });
});

it.each(["in_progress", "completed"] as const)("a new attempt of one of our runs is uninvited when %s", (action) => {
  const signal = run({ runId: "900", runAttempt: 2, action });
  const actions = route(signal, viewOf(ended("passed", "tests-passed")));
  expect(actions).toEqual([{ kind: "uninvited", requestId: "r1", run: { runId: "900", attempt: 2 } }]);
});

describe("a suite that is re-run", () => {
  const signal: Signal = {
    kind: "check-suite",
    action: "rerequested",
    headSha: HEAD,
    headBranch: null,
    appId: "1",
    sender: BOB,
  };

  it("means the newest request of the head, of whatever kind, and only that one", () => {
    const first = ended("failed", "tests-failed");
    const second = ended("passed", "tests-passed", { id: "r2", kind: "recovery", openedAt: T0 + 1, approvedBy: ALICE });
    expect(opened(route(signal, viewOf(first, second)))).toMatchObject([
      { kind: "recovery", generation: 2, row: 4, actor: BOB, approvedBy: BOB },
    ]);
  });

  it("opens nothing while any kind of request is under way there", () => {
    const first = ended("failed", "tests-failed");
    const second = requestIn(states.queued(), { id: "r2", kind: "recovery" });
    const actions = route(signal, viewOf(first, second));
    expect(opened(actions)).toEqual([]);
    expect(actions).toContainEqual({ kind: "asked", requestId: "r2", row: 4, actor: BOB });
  });

  it("of another App is nobody's", () => {
    const actions = route({ ...signal, appId: "2" }, viewOf(ended("failed", "tests-failed")));
    expect(actions.map(({ kind }) => kind)).toEqual(["note"]);
  });
});

describe("the repository", () => {
  const going = requestIn(states.queued());

  it.each(["archived", "deleted"] as const)("%s ends everything", (action) => {
    expect(route({ kind: "repository", action }, viewOf(going))).toMatchObject([
      { kind: "stop", requestId: "r1", verdict: { kind: "cancelled", reason: "repository-gone" } },
    ]);
  });

  it.each(["renamed", "transferred", "unarchived"] as const)("%s ends nothing, and is looked at", (action) => {
    const actions = route({ kind: "repository", action }, viewOf(going));
    expect(actions.map(({ kind }) => kind)).toEqual(["hint", "reconcile"]);
  });
});

describe("a comment", () => {
  const terms = { ...TERMS, start: "comment", startWord: "/gpu run" } as const;
  const OTHER = "b".repeat(40);
  const waits = (change: Change): GateRequest => ended("awaiting-approval", "awaiting-approval", { terms, ...change });
  const said: Signal = {
    kind: "comment",
    prNumber: 7,
    commentId: "1",
    firstLine: "/gpu run",
    createdAt: new Date(T0 + 1_000).toISOString(),
    sender: BOB,
  };
  const first = waits({ id: "r1", openedAt: T0 - 2_000 });
  const second = waits({ id: "r2", headSha: OTHER, openedAt: T0 - 1_000 });

  it("means the newest commit that waits", () => {
    expect(opened(route(said, viewOf(first, second)))).toMatchObject([{ headSha: OTHER }]);
  });

  const approved = { row: 3, actor: BOB };
  const left = ended("superseded", "head-moved", {
    id: "r3",
    headSha: OTHER,
    generation: 2,
    openedAt: T0,
    openedBy: approved,
  });

  it("means an earlier one when the newest one's approval came to nothing because the head had left it", () => {
    expect(opened(route(said, viewOf(first, second, left)))).toMatchObject([{ headSha: HEAD }]);
  });

  it("that was written before that came out still means the newest one, however late it arrives", () => {
    const early = { ...said, createdAt: new Date(T0 - 1).toISOString() };
    const then = [first, second].map((one) => ({ ...one, state: { ...one.state, at: T0 - 500 } }) as GateRequest);
    expect(opened(route(early, viewOf(...then, left)))).toEqual([]);
  });

  it.each([
    ["under way", requestIn(states.queued(), { id: "r3", headSha: OTHER, generation: 2, openedBy: approved, terms })],
    ["tested", ended("failed", "tests-failed", { id: "r3", headSha: OTHER, generation: 2, openedBy: approved, terms })],
    ["superseded on its own", ended("superseded", "head-moved", { id: "r3", headSha: OTHER, generation: 2 })],
  ])("never falls back to an earlier commit while the newest is %s", (_what, newest) => {
    expect(opened(route(said, viewOf(first, second, newest)))).toEqual([]);
  });

  it("still finds a commit that somebody tried to approve who may not", () => {
    const openedBy = { row: 3, actor: BOB };
    const refused = ended("refused", "actor-not-permitted", { id: "r3", generation: 2, openedBy, terms });
    expect(opened(route(said, viewOf(first, refused)))).toMatchObject([{ headSha: HEAD, generation: 3 }]);
  });
});

it("a comment of the same second as the check's word may have been written before it, so it approves nothing", () => {
  const terms = { ...TERMS, start: "comment", startWord: "/gpu run" } as const;
  const waits = verdict("awaiting-approval", "awaiting-approval", "");
  const waiting = requestIn({ kind: "concluded", at: T0 + 400, verdict: waits }, { terms });
  const comment = (second: number): Signal => ({
    kind: "comment",
    prNumber: 7,
    commentId: "1",
    firstLine: "/gpu run",
    createdAt: new Date(T0 + second * 1_000).toISOString(),
    sender: BOB,
  });
  expect(opened(route(comment(0), viewOf(waiting)))).toEqual([]);
  expect(opened(route(comment(1), viewOf(waiting)))).toMatchObject([{ row: 3, approvedBy: BOB, headSha: HEAD }]);
});

describe("an answer for another base", () => {
  const forBase = (request: GateRequest, baseRef: string, change: Change = {}): GateRequest => ({
    ...request,
    admission: { ...ADMISSION, baseRef },
    ...change,
  });
  const waved = ended("not-required", "docs-only");
  const passed = ended("passed", "tests-passed");
  const failed = ended("failed", "tests-failed");
  const edited = (baseRef?: string): Signal => ({
    kind: "pull-request",
    action: "edited",
    prNumber: 7,
    headSha: HEAD,
    headRepositoryId: "101",
    ...(baseRef === undefined ? {} : { baseRef }),
    draft: false,
    label: null,
    sender: BOB,
  });

  it.each([
    ["'not required'", waved],
    ["a test", passed],
    ["a failed test", failed],
    ["a wait for approval", ended("awaiting-approval", "awaiting-approval")],
  ] as const)("is none for this one: %s", (_what, request) => {
    expect(needsAnswer([forBase(request, "stage")], { prNumber: 7, baseRef: "main" })).toBe(true);
    expect(needsAnswer([forBase(request, "main")], { prNumber: 7, baseRef: "main" })).toBe(false);
    expect(needsAnswer([forBase(request, "stage")], { prNumber: 7 })).toBe(false);
  });

  it("counts again where both bases were answered green, and not where one was not", () => {
    const there = forBase(passed, "stage", { generation: 2 });
    expect(needsAnswer([forBase(passed, "main"), there], { prNumber: 7, baseRef: "main" })).toBe(false);
    expect(needsAnswer([forBase(failed, "main"), there], { prNumber: 7, baseRef: "main" })).toBe(true);
    expect(
      needsAnswer([forBase(passed, "main"), forBase(failed, "main"), there], { prNumber: 7, baseRef: "main" }),
    ).toBe(true);
  });

  it("is not asked for in turns by two pull requests with two bases", () => {
    const other = forBase(passed, "stage", { prNumber: 6 });
    const own = forBase(passed, "main", { generation: 2 });
    expect(needsAnswer([other], { prNumber: 7, baseRef: "main" })).toBe(true);
    expect(needsAnswer([other, own], { prNumber: 6, baseRef: "stage" })).toBe(false);
    expect(needsAnswer([other, own], { prNumber: 7, baseRef: "main" })).toBe(false);
  });

  it("stands for all where it is red and was said of another pull request: no other answer may paint it green", () => {
    expect(needsAnswer([forBase(failed, "stage", { prNumber: 6 })], { prNumber: 7, baseRef: "main" })).toBe(false);
  });

  it.each([
    ["superseded", ended("superseded", "base-moved")],
    ["refused", ended("refused", "base-changed")],
  ] as const)("that was given up for it is followed by one: %s", (_what, request) => {
    expect(needsAnswer([request], { prNumber: 7 })).toBe(true);
  });

  it("goes by what was said of the base where it ended before it was admitted", () => {
    const refused = { ...ended("refused", "author-not-permitted"), admission: null, baseRef: "stage" };
    expect(needsAnswer([refused], { prNumber: 7, baseRef: "main" })).toBe(true);
    expect(needsAnswer([refused], { prNumber: 7, baseRef: "stage" })).toBe(false);
  });

  it("is compared with GitHub, since the word may be late: the word itself opens nothing", () => {
    expect(route(edited("main"), viewOf(forBase(passed, "stage")))).toEqual([{ kind: "reconcile" }]);
    const reopened: Signal = { ...pull("reopened"), baseRef: "main" } as Signal;
    expect(route(reopened, viewOf(forBase(passed, "stage")))).toEqual([{ kind: "reconcile" }]);
  });

  it("is not looked for because the title was edited", () => {
    for (const signal of [edited("stage"), edited()]) {
      expect(route(signal, viewOf(forBase(passed, "stage"))).map(({ kind }) => kind)).toEqual(["note"]);
    }
  });

  it("is remembered of an open request, which looks at once", () => {
    const open = { ...requestIn(states.queued()), baseRef: "stage" };
    expect(route(edited("main"), viewOf(open))).toEqual([
      { kind: "base", requestId: "r1", baseRef: "main" },
      { kind: "hint", requestId: "r1" },
    ]);
    expect(route(edited("stage"), viewOf(open))).toEqual([{ kind: "hint", requestId: "r1" }]);
  });
});
