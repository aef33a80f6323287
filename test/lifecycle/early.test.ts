/** Stories before money: authorising, waiting, preparing, queueing, the last look inside the lock. */
import { describe, expect, test } from "vitest";
import type { GateRequest, StateOf, Terms } from "../../shared/lifecycle/model.ts";
import type { AuthorizeOutcome, Outcomes, PrepareFacts } from "../../shared/lifecycle/tasks.ts";
import { outcomes } from "./events.ts";
import {
  ADMISSION,
  ALICE,
  BOB,
  HOLD,
  known,
  LIMITS,
  MINUTE,
  OTHER_HEAD,
  PLAN,
  PREPARE_RUN,
  PULL,
  requestIn,
  SECOND,
  states,
  STOP,
  T0,
  TERMS,
  UNREAD,
} from "./fixtures.ts";
import { Story } from "./story.ts";

function story(state: GateRequest["state"], kind: string, change: Partial<GateRequest> = {}): Story {
  const one = new Story(requestIn(state, change));
  const task = { kind } as NonNullable<Story["task"]>["task"];
  one.task = { task, dueAt: T0 };
  return one;
}

const authorizing = (change: Partial<GateRequest> = {}) => story(states.authorizing(), "authorize", change);
const admitted = (terms: Partial<Terms> = {}, admission: Partial<typeof ADMISSION> = {}): AuthorizeOutcome => ({
  kind: "admitted",
  terms: { ...TERMS, ...terms },
  admission: { ...ADMISSION, ...admission },
});

describe("authorising", () => {
  test("a change that needs no GPU concludes at once, whoever it is from and however runs are started", () => {
    const one = authorizing();
    one.answer(
      "authorize",
      admitted({ start: "label" }, { gpuRequired: false, classification: "docs-only", draft: true }),
    );
    expect(one.verdict).toMatchObject({ kind: "not-required", reason: "docs-only" });
  });

  test("what was decided about the change, and on whose account, is the first entry of the audit", () => {
    const change = { gpuRequired: false, classification: "docs-only", reason: "documentation: a.md" } as const;
    const [first, ...rest] = authorizing({ actor: BOB }).answer("authorize", admitted({}, change)).audit;
    const facts = { author: "alice", change: "docs-only", gpu: false, why: "documentation: a.md" };
    expect(first).toMatchObject({ act: "request.admitted", facts });
    expect(rest.map(({ act }) => act)).toContain("request.conclude");
  });

  test("shadow mode buys nothing for a change that needs the GPU", () => {
    const one = authorizing();
    one.answer("authorize", admitted({ shadow: true }));
    expect(one.verdict).toMatchObject({ kind: "not-required", reason: "shadow-mode" });
  });

  test("an approval lets a request go on that would otherwise wait for one", () => {
    const one = authorizing({ approvedBy: BOB, triggerSeen: true });
    one.answer("authorize", admitted({ start: "approval" }));
    expect(one.at).toBe("preparing/dispatch");
  });

  test("a merge group that is no more ends as dissolved", () => {
    const group = { headRef: "refs/heads/gh-readonly-queue/main/pr-7-a0", baseSha: "b1", baseRef: "refs/heads/main" };
    const one = authorizing({ kind: "merge-group", prNumber: null, group });
    one.answer("authorize", outcomes.authorize.closed);
    expect(one.verdict).toMatchObject({ kind: "cancelled", reason: "merge-group-destroyed" });
  });

  test("a draft waits, an approval or not", () => {
    const one = authorizing({ approvedBy: BOB, triggerSeen: true });
    one.answer("authorize", admitted({ start: "approval" }, { draft: true }));
    expect(one.at).toBe("waiting/ready");
  });

  describe("nobody told who caused it", () => {
    const unknown = { actor: null, openedBy: { row: 1, actor: null } };
    const untriggered = { workflows: { ...TERMS.workflows, trigger: null } };

    test("and no run is going to say it: a maintainer's word is waited for", () => {
      const one = authorizing(unknown);
      one.answer("authorize", admitted(untriggered));
      expect(one.verdict).toMatchObject({ kind: "awaiting-approval", reason: "actor-unknown" });
    });

    test("does not matter where nothing is rented, nor where the trigger's run will say it", () => {
      const light = authorizing(unknown);
      light.answer("authorize", admitted(untriggered, { gpuRequired: false, classification: "docs-only" }));
      expect(light.verdict).toMatchObject({ kind: "not-required" });
      const triggered = authorizing(unknown);
      triggered.answer("authorize", admitted());
      expect(triggered.at).toBe("waiting/trigger");
    });

    test("until GitHub had answered: the one who is named now is looked at before anything else", () => {
      const one = authorizing({ ...unknown, actor: BOB });
      one.answer("authorize", admitted(untriggered, { actor: ALICE }));
      expect(one.at).toBe("authorizing");
      one.answer("authorize", admitted(untriggered, { actor: BOB }));
      expect(one.at).toBe("preparing/dispatch");
    });
  });

  test("a GitHub that does not answer is asked again for half an hour, with growing pauses, then it is the outage's fault", () => {
    const one = authorizing();
    const pauses: number[] = [];
    while (one.kind === "authorizing") {
      const before = one.now;
      one.answer("authorize", outcomes.authorize.unknown);
      pauses.push(one.now - before);
    }
    expect(one.now - T0).toBeGreaterThanOrEqual(30 * MINUTE);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(MINUTE);
    expect(one.verdict).toMatchObject({ kind: "infrastructure", reason: "github-outage" });
  });

  test("a rate limit's end is waited for", () => {
    const one = authorizing();
    one.answer("authorize", { kind: "unknown", why: "rate limit", retryAt: T0 + 7 * MINUTE });
    expect(one.task?.dueAt).toBe(T0 + 7 * MINUTE);
  });

  test("a stop that came while it was read is obeyed whatever was found", () => {
    for (const outcome of Object.values(outcomes.authorize)) {
      const one = authorizing();
      one.event({ kind: "stop", verdict: STOP, inFlight: true });
      one.answer("authorize", outcome);
      expect(one.verdict).toEqual(STOP);
    }
  });
});

describe("waiting for the trigger workflow", () => {
  const waiting = (change: Partial<GateRequest> = {}) => story(states.waiting("trigger"), "observe", change);

  test("its triggering actor is the one who is authorised from then on", () => {
    const one = waiting();
    one.observe({ pull: known(PULL), triggerRun: known({ runId: "1", status: "in_progress", actor: BOB }) });
    expect(one.request).toMatchObject({ actor: BOB, triggerSeen: true });
    one.answer("authorize", admitted());
    expect(one.at).toBe("preparing/dispatch");
  });

  test("none in 900 s asks for a maintainer; a look is made at that instant", () => {
    const one = waiting();
    one.lookUntil(T0 + 900 * SECOND, { pull: known(PULL), triggerRun: known(null) });
    expect(one.kind).toBe("waiting");
    one.observe({ pull: known(PULL), triggerRun: UNREAD });
    expect(one.now).toBe(T0 + 900 * SECOND);
    expect(one.verdict).toMatchObject({ kind: "awaiting-approval", reason: "trigger-not-started" });
  });

  test("made a draft meanwhile it waits until it is ready; where drafts are run it goes on waiting for CI", () => {
    const look: Outcomes["observe"] = { pull: known({ ...PULL, draft: true }), triggerRun: known(null) };
    const waits = waiting();
    waits.observe(look);
    expect(waits.at).toBe("waiting/ready");
    const runs = waiting({ terms: { ...TERMS, drafts: "run" } });
    runs.observe(look);
    expect(runs.at).toBe("waiting/trigger");
  });

  test("a draft has no time limit and is authorised afresh when it is ready", () => {
    const one = story(states.waiting("ready"), "observe");
    one.lookUntil(T0 + 48 * 60 * MINUTE, { pull: known({ ...PULL, draft: true }) });
    expect(one.at).toBe("waiting/ready");
    one.observe({ pull: known(PULL) });
    expect(one.asks).toBe("authorize");
  });
});

describe("preparing", () => {
  const watching = (change: Partial<StateOf<"preparing">> = {}, request: Partial<GateRequest> = {}) =>
    story(states.preparing("watch", change), "observe", request);
  const facts = (change: Partial<PrepareFacts>): Outcomes["observe"] => ({
    pull: known(PULL),
    prepareRun: known({
      status: "completed",
      conclusion: "success",
      failedJobs: [],
      artifacts: [],
      url: "u",
      ...change,
    }),
    preGate: known({ kind: "ready" }),
  });

  test("keeps the artifacts that were there when it succeeded", () => {
    const artifact = { id: "1", name: "archive", digest: "sha256:1", expiresAt: T0 + 1 };
    const one = watching();
    one.observe(facts({ artifacts: [artifact] }));
    expect(one.state("queued").prepared).toEqual({ run: PREPARE_RUN, artifacts: [artifact], at: one.now });
    expect(one.locks).toEqual(["enqueue"]);
  });

  test.each<[string, Partial<PrepareFacts>, string, string]>([
    ["a failed job", { conclusion: "failure", failedJobs: ["build"] }, "failed", "preparation-failed"],
    ["a failure without a failed job", { conclusion: "failure" }, "infrastructure", "preparation"],
    ["startup_failure", { conclusion: "startup_failure" }, "infrastructure", "preparation"],
    ["timed_out", { conclusion: "timed_out", failedJobs: ["build"] }, "infrastructure", "preparation"],
    ["a word nobody has met", { conclusion: "odd" }, "infrastructure", "preparation"],
    ["a cancel on GitHub", { conclusion: "cancelled" }, "cancelled", "cancelled-by-user"],
  ])("%s", (_, change, kind, reason) => {
    const one = watching();
    one.observe(facts(change));
    one.remove();
    expect(one.verdict).toMatchObject({ kind, reason });
  });

  test("a run that GitHub does not know twice in a row is gone; unreadable looks in between do not help it", () => {
    const one = watching();
    one.observe({ prepareRun: known("gone") });
    one.observe({ prepareRun: UNREAD });
    expect(one.kind).toBe("preparing");
    one.observe({ prepareRun: known("gone") });
    one.remove();
    expect(one.verdict).toMatchObject({ kind: "infrastructure", reason: "preparation" });
  });

  test("5,100 s are its limit, also when nothing can be read", () => {
    const one = watching();
    one.lookUntil(T0 + 5_100 * SECOND, { prepareRun: UNREAD, preGate: UNREAD });
    expect(one.kind).toBe("preparing");
    one.observe({ prepareRun: UNREAD });
    expect(one.now).toBe(T0 + 5_100 * SECOND);
    one.remove();
    expect(one.verdict).toMatchObject({ kind: "deadline", reason: "preparation-timeout" });
    expect(one.performed).toContain("cancel-run");
  });

  test.each<[string, Partial<GateRequest>, Outcomes["observe"]["preGate"], readonly string[]]>([
    [
      "named, when no job publishes them",
      {},
      known({ kind: "wait", for: ["rustfmt", "clippy"] }),
      ["The prepare run succeeded", "`pre_gate`", "within 5100 s: rustfmt, clippy."],
    ],
    [
      "named after the merge queue's own key",
      { kind: "merge-group" },
      known({ kind: "wait", for: ["clippy"] }),
      ["The prepare run succeeded", "`merge_queue.pre_gate`", "within 5100 s: clippy."],
    ],
    [
      "named as unreadable, when GitHub does not show them",
      {},
      UNREAD,
      ["The prepare run succeeded", "could not be read within 5100 s: rustfmt, clippy."],
    ],
  ])("the limit with a prepare run that succeeded: the checks it waited for are %s", (_, change, preGate, said) => {
    const one = story(states.preparing("watch"), "observe", change);
    const look = { ...facts({}), preGate: preGate ?? UNREAD };
    one.lookUntil(T0 + 5_100 * SECOND, look);
    one.observe(look);
    one.remove();
    expect(one.verdict).toMatchObject({ kind: "deadline", reason: "preparation-timeout" });
    for (const words of said) expect(one.verdict.detail).toContain(words);
    expect(one.verdict.detail).not.toContain("did not finish");
  });

  test("the limit with a run that still works says so, whatever the checks say", () => {
    const one = watching();
    const look: Outcomes["observe"] = {
      ...facts({ status: "in_progress", conclusion: null }),
      preGate: known({ kind: "wait", for: ["clippy"] }),
    };
    one.lookUntil(T0 + 5_100 * SECOND, look);
    one.observe(look);
    one.remove();
    expect(one.verdict.detail).toBe("Preparation did not finish within 5100 s.");
  });

  test("a moved head cancels the hosted run, which costs no GPU", () => {
    const one = watching();
    one.observe({ pull: known({ ...PULL, headSha: OTHER_HEAD }) });
    expect(one.task?.task).toMatchObject({ kind: "cancel-run", run: PREPARE_RUN });
    one.remove();
    expect(one.verdict).toMatchObject({ kind: "superseded" });
    expect(one.ledger).toEqual([]);
  });

  test("a stop while the start is not possible yet ends it: the run was certainly not started", () => {
    const one = story(states.preparing("dispatch"), "dispatch-prepare");
    one.event({ kind: "stop", verdict: STOP, inFlight: true });
    one.answer("dispatch-prepare", outcomes["dispatch-prepare"]["not-sent"]);
    expect(one.verdict).toEqual(STOP);
  });

  test("a start that is not possible yet is tried more and more seldom, and at least once a minute", () => {
    const one = story(states.preparing("dispatch"), "dispatch-prepare");
    const pauses: number[] = [];
    for (let last = T0; one.now < T0 + 1_200 * SECOND; last = one.now) {
      one.answer("dispatch-prepare", outcomes["dispatch-prepare"]["not-sent"]);
      pauses.push(Math.round((one.now - last) / SECOND));
    }
    expect(pauses.slice(1, 4)).toEqual([4, 4, 4]);
    expect(pauses.at(-1)).toBe(60);
    expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
    expect(pauses.length).toBeLessThan(40);
  });

  test.each(["dispatched", "lost"] as const)("a stop while the start is %s: the run is found and cancelled", (word) => {
    const one = story(states.preparing("dispatch"), "dispatch-prepare");
    one.event({ kind: "stop", verdict: STOP, inFlight: true });
    one.answer("dispatch-prepare", outcomes["dispatch-prepare"][word]);
    if (word === "lost") one.answer("find-prepare", outcomes["find-prepare"].found);
    one.observe(facts({ status: "in_progress", conclusion: null }));
    expect(one.task?.task).toMatchObject({ kind: "cancel-run", run: { runId: "800" } });
    one.remove();
    expect(one.verdict).toEqual(STOP);
  });

  test("a start that stays lost ends after 120 s", () => {
    const one = story(states.preparing("find"), "find-prepare");
    while (one.kind === "preparing") one.answer("find-prepare", outcomes["find-prepare"].none);
    expect(one.now - T0).toBe(120 * SECOND);
    expect(one.verdict).toMatchObject({ kind: "infrastructure", reason: "workflow-unavailable" });
  });
});

describe("the queue", () => {
  const queued = (change: Partial<GateRequest> = {}) => story(states.queued(), "observe", change);

  test("21,600 s are the longest wait", () => {
    const one = queued();
    one.lookUntil(T0 + 21_600 * SECOND, { pull: known(PULL) });
    expect(one.kind).toBe("queued");
    one.observe({ pull: known(PULL) });
    expect(one.verdict).toMatchObject({ kind: "deadline", reason: "queue-timeout" });
    expect(one.locks).toEqual(["leave"]);
  });

  test("N59: a head that moved leaves on the spot when it is told to look", () => {
    const one = queued();
    one.event({ kind: "hint" });
    expect(one.task?.dueAt).toBe(T0);
    one.observe({ pull: known({ ...PULL, headSha: OTHER_HEAD }) });
    expect(one.locks).toEqual(["leave"]);
  });

  test("a stop that is on its way when the lock is granted is obeyed inside it, and the lock released once", () => {
    const one = queued();
    one.event({ kind: "stop", verdict: STOP, inFlight: true });
    one.event({ kind: "lock-granted", fence: 3 });
    one.answer("recheck", outcomes.recheck.admitted);
    expect(one.verdict).toEqual(STOP);
    expect(one.locks).toEqual(["release"]);
  });

  test("the fence of the grant goes with the request to the end", () => {
    const one = queued();
    one.event({ kind: "lock-granted", fence: 3 });
    one.answer("recheck", outcomes.recheck.admitted);
    one.answer("plan", outcomes.plan.planned);
    expect(one.state("provisioning").hold).toEqual({ fence: 3, since: T0 });
  });
});

describe("the last look inside the lock", () => {
  const rechecking = (change: Partial<StateOf<"revalidating">> = {}, request: Partial<GateRequest> = {}) =>
    story(states.revalidating("recheck", change), "recheck", request);
  const stale = {
    kind: "stale-inputs",
    why: "the configuration changed",
    terms: { ...TERMS, configHash: "config-2" },
    admission: { ...ADMISSION, testedSha: "f".repeat(40) },
  } as const;

  test("what no longer fits goes back to preparing once, under the new configuration, and keeps its place", () => {
    const one = rechecking();
    one.answer("recheck", stale);
    expect(one.state("preparing")).toMatchObject({ step: "dispatch", hold: HOLD, backToPreparing: 1 });
    expect(one.request).toMatchObject({
      terms: { configHash: "config-2" },
      admission: { testedSha: "f".repeat(40) },
      prepared: null,
    });
    expect(one.locks).toEqual([]);
    one.answer("dispatch-prepare", outcomes["dispatch-prepare"].dispatched);
    one.observe({
      prepareRun: known({ status: "completed", conclusion: "success", failedJobs: [], artifacts: [], url: "u" }),
    });
    expect(one.at).toBe("revalidating/recheck");
    expect(one.state("revalidating").hold).toEqual(HOLD);
  });

  test("a second time is the preparation's fault, and the lock passes on", () => {
    const one = rechecking({ backToPreparing: 1 });
    one.answer("recheck", stale);
    expect(one.verdict).toMatchObject({ kind: "infrastructure", reason: "preparation" });
    expect(one.locks).toEqual(["release"]);
  });

  test("artifacts that are gone a second time are named as what is missing", () => {
    const one = rechecking({ backToPreparing: 1 });
    one.answer("recheck", {
      ...stale,
      why: "artifact gpu-gate-archives-part00 is gone or expired",
      artifactsMissing: true,
    });
    expect(one.verdict).toMatchObject({ kind: "infrastructure", reason: "artifacts-missing" });
    expect(one.locks).toEqual(["release"]);
  });

  test("a preparation that fails while the lock is kept gives it up", () => {
    const one = story(states.preparing("watch", { hold: HOLD, backToPreparing: 1 }), "observe");
    one.observe({
      prepareRun: known({ status: "completed", conclusion: "failure", failedJobs: ["build"], artifacts: [], url: "u" }),
    });
    expect(one.locks).toEqual(["release"]);
    one.remove();
    expect(one.verdict).toMatchObject({ kind: "failed" });
    expect(one.locks).toEqual(["release"]);
  });

  test("N117: a right that was taken away while it queued counts", () => {
    const one = rechecking();
    one.answer("recheck", outcomes.recheck.refused);
    expect(one.verdict).toMatchObject({ kind: "refused", reason: "actor-not-permitted" });
  });

  test("made a draft again it buys nothing and gives the lock up; ready once more it begins anew", () => {
    const one = rechecking();
    one.answer("recheck", { ...outcomes.recheck.admitted, admission: { ...ADMISSION, draft: true } });
    expect(one.at).toBe("waiting/ready");
    expect(one.locks).toEqual(["release"]);
    one.observe({ pull: known(PULL) });
    expect(one.asks).toBe("authorize");
  });

  describe.each(["admitted", "stale-inputs"] as const)("what the default branch says by now: %s", (kind) => {
    const answer = (terms: Partial<typeof TERMS>, admission: Partial<typeof ADMISSION> = {}) => ({
      ...(kind === "admitted" ? outcomes.recheck.admitted : stale),
      terms: { ...TERMS, configHash: "config-2", ...terms },
      admission: { ...ADMISSION, ...admission },
    });

    test.each([
      ["shadow mode", answer({ shadow: true }), { kind: "not-required", reason: "shadow-mode" }],
      ["an approval", answer({ start: "approval" }), { kind: "awaiting-approval", reason: "awaiting-approval" }],
      [
        "no GPU",
        answer({}, { gpuRequired: false, classification: "ci-only" }),
        { kind: "not-required", reason: "hosted-only" },
      ],
    ] as const)("%s ends it, and the lock passes on", (_, told, word) => {
      // What does not fit a second time is no reason to say that the preparation failed.
      const one = rechecking({ backToPreparing: 1 });
      one.answer("recheck", told);
      expect(one.verdict).toMatchObject(word);
      expect(one.request.terms?.configHash).toBe("config-2");
      expect([one.locks, one.performed]).toEqual([["release"], ["recheck"]]);
    });

    test("a draft waits without the lock, and nothing is prepared for it", () => {
      const one = rechecking();
      one.answer("recheck", answer({}, { draft: true }));
      expect([one.at, one.locks]).toEqual(["waiting/ready", ["release"]]);
      one.observe({ pull: known(PULL) });
      expect(one.asks).toBe("authorize");
    });

    test.each([
      ["its word has been given", { approvedBy: { id: "9", login: "mira" } }],
      ["each member of the group has had its own", { kind: "merge-group", prNumber: null }],
    ] as const)("an approval is not asked for where %s", (_, request) => {
      const one = rechecking({}, request);
      one.answer("recheck", answer({ start: "approval" }));
      expect(one.at).toBe(kind === "admitted" ? "revalidating/plan" : "preparing/dispatch");
      expect(one.locks).toEqual([]);
    });
  });

  test("an identical tree that passed is reused without a plan", () => {
    const one = rechecking();
    one.answer("recheck", outcomes.recheck.reuse);
    expect(one.verdict).toMatchObject({ kind: "reused", reason: "identical-tree" });
    expect(one.performed).toEqual(["recheck"]);
  });

  test("a GitHub that stays silent while the lock is held ends it after half an hour", () => {
    const one = rechecking();
    while (one.kind === "revalidating") one.answer("recheck", outcomes.recheck.unknown);
    expect(one.now - T0).toBeGreaterThanOrEqual(LIMITS.authorizeRetryFor);
    expect(one.verdict).toMatchObject({ reason: "github-outage" });
  });

  test("RunPod's contract and prices are tried three times: others wait for the lock", () => {
    const one = story(states.revalidating("plan"), "plan");
    while (one.kind === "revalidating") one.answer("plan", outcomes.plan.unknown);
    expect(one.performed.length).toBe(3);
    expect(one.verdict).toMatchObject({ kind: "infrastructure", reason: "provider-outage" });
  });

  test.each<[string, object, number]>([
    ["the dearest price of the plan", { ceilingPrice: 1.6, reservedPrice: 0.4 }, 480_000],
    ["the ceiling, in a plan from before that price was stored", { ceilingPrice: 1.6 }, 1_920_000],
    ["never more than the ceiling", { ceilingPrice: 1.6, reservedPrice: 2 }, 1_920_000],
  ])("the worst case is reserved: %s for the whole reserved time", (_, prices, micros) => {
    const one = story(states.revalidating("plan"), "plan");
    one.answer("plan", { kind: "planned", plan: { ...PLAN, ...prices } });
    expect(one.task?.task).toMatchObject({ kind: "reserve", micros });
  });
});

describe("a new request", () => {
  test("that begins twice begins once", () => {
    const one = new Story(requestIn(states.received(), { actor: ALICE }));
    one.event({ kind: "opened" });
    expect(one.event({ kind: "opened" }).ignored).toBe("already under way");
  });
});
