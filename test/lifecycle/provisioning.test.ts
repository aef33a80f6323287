/** Stories of one lock hold: what makes a pod accepted or rejected, and by when. */
import { describe, expect, test } from "vitest";

import { costReport } from "../../shared/cost/report.ts";
import type { Outcomes } from "../../shared/lifecycle/tasks.ts";
import { outcomes } from "./events.ts";
import {
  CANDIDATES,
  execute,
  job,
  known,
  MINUTE,
  PLAN,
  PROOF,
  requestIn,
  SECOND,
  SETTING_UP,
  states,
  T0,
  TERMS,
  TEST_STEP,
  UNREAD,
} from "./fixtures.ts";
import { Story } from "./story.ts";

import { buy, CAPACITY, EXITED, online, planned, prove, up } from "./lock-hold.ts";

describe("a pod that is accepted", () => {
  test("needs its proof, its own runner online, and to be alive", () => {
    const story = buy(planned().reachCreate());
    story.observe(up());
    prove(story);
    story.observe(online());
    expect(story.state("executing").attempt).toMatchObject({ id: "r1-1", onlineAt: story.now, pod: { id: "pod-1" } });
    expect(story.ledger).toMatchObject([{ kind: "open", podId: "pod-1", attemptId: "r1-1" }]);
    expect(story.performed.filter((kind) => kind === "create-pod").length).toBe(1);
  });

  test("everything is there before money is asked for: reservation, runner, run, in this order", () => {
    const story = planned().reachCreate();
    expect(story.performed).toEqual(["plan", "reserve", "mint", "dispatch-execute"]);
    expect(story.state("provisioning").attempt).toMatchObject({
      runner: { id: "41" },
      run: { runId: "901" },
      pod: null,
    });
  });

  test("N68: a runner online without this attempt's proof is not accepted", () => {
    const story = buy(planned().reachCreate());
    story.observe({ ...up(), runner: known({ online: true, busy: false }) });
    expect(story.at).toBe("provisioning/start");
  });

  test("a runner online while the pod could not be read is not accepted", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    story.observe({ ...online(), pod: UNREAD });
    expect(story.at).toBe("provisioning/start");
  });

  test("is looked at on the spot when its proof arrives, and GitHub is asked only from then on", () => {
    const story = buy(planned().reachCreate());
    expect(story.task?.task).toMatchObject({ kind: "observe", want: { pod: { id: "pod-1" } } });
    expect(JSON.stringify(story.task?.task)).not.toContain("runner");
    story.observe(up());
    prove(story);
    expect(story.task).toMatchObject({
      dueAt: story.now,
      task: { want: { runner: { id: "41" }, job: { run: { runId: "901" } } } },
    });
  });

  test("a second proof, a proof of another attempt and one that names another pod change nothing", () => {
    const story = buy(planned().reachCreate());
    expect(prove(story, { podId: "pod-9" }).ignored).toBe("the proof names another pod");
    expect(story.event({ kind: "proof", attemptId: "r1-9", proof: PROOF }).ignored).toBe("not the current attempt");
    expect(prove(story).ignored).toBeNull();
    expect(prove(story).ignored).toBe("the proof was given already");
  });

  test("our job already running on our runner is more than online, even when the registry is silent", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    story.observe({ ...up(), runner: UNREAD, job: known(execute(SETTING_UP)) });
    expect(story.kind).toBe("executing");
  });

  test("a job that failed while nobody looked is heard before its dead pod is judged: tests are never run twice", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    const failed = job({
      conclusion: "failure",
      steps: [{ name: TEST_STEP, status: "completed", conclusion: "failure" }],
    });
    story.event({ kind: "exit", attemptId: "r1-1", code: 0 });
    story.observe({ ...EXITED("pod-1"), runner: known("gone"), job: known(execute(failed)) });
    expect(story.kind).toBe("executing");
    story.observe({ ...EXITED("pod-1"), job: known(execute(failed)) });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "failed", reason: "tests-failed" });
    expect(story.request.counts.pods).toBe(1);
  });
});

describe("a pod that is rejected", () => {
  const rejections: readonly [string, string, (story: Story) => void][] = [
    ["a foreign GPU in the create's answer", "bad-host", (story) => void buy(story, { gpuId: "GPU X" })],
    ["a foreign GPU in a later look", "bad-host", (story) => void buy(story).observe(up("pod-1", { gpuId: "GPU X" }))],
    [
      "a proof of another GPU",
      "bad-host",
      (story) => {
        buy(story);
        prove(story, { gpuName: "GPU X" });
        story.observe(online());
      },
    ],
    [
      "an exit before the proof",
      "bad-host",
      (story) => {
        buy(story).event({ kind: "exit", attemptId: "r1-1", code: 3 });
        story.observe(up());
      },
    ],
    ["a dead pod", "startup", (story) => void buy(story).observe(EXITED("pod-1"))],
    [
      "an exit after the proof and before the runner was seen",
      "startup",
      (story) => {
        buy(story);
        prove(story);
        story.event({ kind: "exit", attemptId: "r1-1", code: 1 });
        story.observe(up());
      },
    ],
    [
      "another runner with our job",
      "strangers-job",
      (story) => {
        buy(story);
        prove(story);
        story.observe({
          ...up(),
          job: known(execute(job({ status: "in_progress", conclusion: null, runnerId: "99" }))),
        });
      },
    ],
  ];

  test.each(rejections)("%s: gone first, then the following candidate on a fresh clock", (_, reason, reject) => {
    const story = planned().reachCreate();
    reject(story);
    expect(story.at).toBe("provisioning/teardown/deregister-first");
    expect(story.state("provisioning").rejection).toMatchObject({ kind: "infrastructure", reason });
    story.remove();
    expect(story.ledger.map((op) => op.kind)).toEqual(["open", "close"]);
    story.reachCreate();
    expect(story.task?.task).toMatchObject({
      kind: "create-pod",
      candidate: { name: CANDIDATES[1]?.name },
      timeoutMs: 60_000,
    });
    expect(story.state("provisioning").attempt).toMatchObject({ id: "r1-2", proof: null, exit: null, pod: null });
  });

  test("N14: nothing is minted, dispatched or bought before the first pod is proven gone", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.answer("deregister", outcomes.deregister.gone);
    story.answer("read-record", { pricePerHour: null });
    for (let times = 0; times < 40; times += 1) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    expect(story.performed.filter((kind) => kind === "mint" || kind === "create-pod")).toEqual(["mint", "create-pod"]);
    expect(story.asks).toBe("delete-pod");
  });

  test("a deletion unproven for ten minutes ends the request when it is proven at last: nothing more is bought", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.answer("deregister", outcomes.deregister.gone);
    story.answer("read-record", { pricePerHour: null });
    const since = story.now;
    while (story.now - since < 11 * MINUTE) story.answer("delete-pod", outcomes["delete-pod"].unknown);
    expect(story.state("provisioning").teardown).toMatchObject({ loud: true, provenAt: null });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "startup" });
    expect(story.locks).toEqual(["release"]);
  });

  test("N70: a pod that runs and whose runner never comes online is given back at 420 s by that name, and another is tried", () => {
    const story = buy(planned().reachCreate());
    prove(story);
    story.lookUntil(T0 + 420 * SECOND, {
      ...up(),
      runner: known({ online: false, busy: false }),
      job: known(execute(null)),
    });
    expect(story.reasons).not.toContain("attempt-no-registration");
    story.observe({ ...up(), runner: known({ online: false, busy: false }), job: known(execute(null)) });
    expect(story.reasons).toContain("attempt-no-registration");
    story.remove().reachCreate();
    expect(story.asks).toBe("create-pod");
    expect(story.request.counts).toMatchObject({ pods: 1, startupFailures: 1 });
  });

  test("two pods in a row that never registered end the request", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    buy(story.remove().reachCreate(), { gpuId: "GPU X" });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "startup" });
    expect(story.request.counts).toMatchObject({ pods: 2, startupFailures: 2 });
  });

  test("a refusal in between breaks the row; 0 switches the rule off", () => {
    const story = buy(planned().reachCreate());
    story.observe(EXITED("pod-1"));
    story.remove().reachCreate().answer("create-pod", CAPACITY);
    buy(story).observe(EXITED("pod-2"));
    story.remove();
    expect(story.verdict).toMatchObject({ reason: "attempts-exhausted" });

    const off = buy(planned({ terms: { ...TERMS, maxStartupFailures: 0 } }).reachCreate());
    off.observe(EXITED("pod-1"));
    buy(off.remove().reachCreate()).observe(EXITED("pod-2"));
    off.remove().reachCreate();
    expect(off.request.counts.pods).toBe(2);
    expect(off.asks).toBe("create-pod");
  });

  test("a pod that registered breaks the row too", () => {
    const story = new Story(
      requestIn(states.provisioning("start"), { counts: { ...requestIn(states.queued()).counts, startupFailures: 1 } }),
    );
    story.task = { task: { kind: "observe", want: {} }, dueAt: T0 };
    prove(story);
    story.observe(online());
    expect(story.request.counts.startupFailures).toBe(0);
  });

  test("N19: bought pods are bounded by max_attempts, and the verdict says why the last one was no good", () => {
    const story = buy(planned({ terms: { ...TERMS, maxAttempts: 1 } }).reachCreate(), { gpuId: "GPU X" });
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "bad-host" });
    expect(story.verdict.detail).toContain("GPU X");
    expect(story.verdict.detail).toContain("1 pods were tried");
  });

  test("behind the last candidate it is not called lack of capacity", () => {
    const story = buy(planned({}, { ...PLAN, candidates: CANDIDATES.slice(0, 1) }).reachCreate());
    story.observe(EXITED("pod-1"));
    story.remove();
    expect(story.verdict).toMatchObject({ reason: "attempts-exhausted" });
    expect(story.request.tried).toEqual([
      { name: CANDIDATES[0]?.name, price: CANDIDATES[0]?.price, answer: expect.stringContaining("rejected") },
    ]);
  });
});

describe("deadlines of a starting pod, measured from our create", () => {
  function starting(): Story {
    return buy(planned().reachCreate());
  }

  test("no machine after 120 s, by a look that shows the pod without one", () => {
    const story = buy(planned().reachCreate(), { machineAssigned: false, dataCenterId: null });
    const bare = up("pod-1", { machineAssigned: false });
    story.lookUntil(T0 + 120 * SECOND, bare);
    expect(story.at).toBe("provisioning/start");
    story.observe(bare);
    expect(story.reasons).toContain("attempt-no-machine");
  });

  test("I11: looks that fail do not make a machine missing; only the 420 s judge them", () => {
    const story = buy(planned().reachCreate(), { machineAssigned: false });
    story.lookUntil(T0 + 420 * SECOND, { pull: UNREAD, pod: UNREAD });
    expect(story.at).toBe("provisioning/start");
    story.observe({ pod: UNREAD });
    expect(story.now).toBe(T0 + 420 * SECOND);
    expect(story.reasons).toContain("attempt-no-registration");
  });

  test("N135: an image that takes 14 minutes is capped by the start-up budget, and what it cost is told as the pull's", () => {
    const story = buy(planned().reachCreate(), { machineAssigned: false });
    const pulling = { runtimeUp: null, startedAt: null } as const;
    story.observe(up("pod-1", { ...pulling, machineAssigned: false }));
    story.lookUntil(T0 + 14 * MINUTE, up("pod-1", pulling));
    expect(story.reasons).toContain("attempt-no-registration");
    const { boot } = story.state("provisioning").attempt ?? {};
    story.remove();
    const [opened, closed] = story.ledger;
    if (opened?.kind !== "open" || closed?.kind !== "close") throw new Error("one line, closed");
    expect(closed.closedAt).toBe(T0 + 420 * SECOND);
    const report = costReport(
      {
        about: {
          attemptId: "r1-1",
          podId: "pod-1",
          requestId: "r1",
          attemptNumber: 1,
          prNumber: 7,
          headSha: null,
          testedSha: null,
          outcome: closed.outcome,
          accepted: false,
        },
        place: { gpu: null, tier: null, dataCenter: null },
        prices: { preDelete: 0.36, startup: null, list: null },
        paidFrom: opened.paidFrom,
        deletedAt: closed.closedAt,
        provenAt: closed.provenAt,
        createMs: null,
        boot: boot ?? null,
      },
      { jobs: [], rules: { gpuJobNameEndsWith: "", steps: [] }, observations: {} },
    );
    // The machine was there in the second look; 418 s are paid, from the create's answer on.
    const machine = (boot?.machineAt ?? 0) - opened.paidFrom;
    expect(machine).toBe(15 * SECOND);
    expect(report.stages?.map(({ name, durationMs }) => [name, durationMs])).toEqual([
      ["machine_assignment", machine],
      ["image_pull", 418 * SECOND - machine],
      ["unassigned_overhead", 0],
    ]);
    expect(report).toMatchObject({ cost: 41_800, flags: ["image-pull-unfinished"] });
  });

  test("N22: a container that is restarted for ever does not move the deadline", () => {
    const story = starting();
    for (let start = 0; story.at === "provisioning/start" && start < 100; start += 1) {
      story.observe(up("pod-1", { runtimeUp: null, startedAt: null }));
    }
    expect(story.now).toBe(T0 + 420 * SECOND);
    expect(story.reasons).toContain("attempt-no-registration");
  });

  test("the last look is made at the deadline itself, and a runner online in it counts", () => {
    const story = starting();
    prove(story);
    story.lookUntil(T0 + 420 * SECOND, up());
    story.observe(online());
    expect(story.now).toBe(T0 + 420 * SECOND);
    expect(story.kind).toBe("executing");
  });

  test("a proven pod at which nobody looked in time is kept for ten minutes while GitHub shows nothing", () => {
    const away = () => {
      const story = starting();
      prove(story);
      story.now = T0 + 10 * MINUTE;
      story.observe({ ...online(), runner: UNREAD, job: UNREAD });
      return story;
    };
    const kept = away();
    for (let look = 0; kept.at === "provisioning/start" && look < 1_000; look += 1) {
      kept.observe({ ...online(), runner: UNREAD, job: UNREAD });
    }
    expect(kept.reasons).toContain("attempt-no-registration");
    expect(kept.now - (T0 + 20 * MINUTE)).toBeGreaterThanOrEqual(0);
    expect(kept.now - (T0 + 20 * MINUTE)).toBeLessThanOrEqual(5 * SECOND);
    // What it shows then counts as it would have at first.
    const seen = away();
    seen.observe(online());
    expect(seen.reasons).toContain("attempt-no-registration");
  });

  test("N24: a runner first seen long after the deadline is not accepted", () => {
    const story = starting();
    prove(story);
    story.now = T0 + 10 * MINUTE;
    story.observe(online());
    expect(story.reasons).toContain("attempt-no-registration");
  });

  test("a runner that could not be asked for is asked for when GitHub takes calls again", () => {
    const story = starting();
    prove(story);
    const retryAt = story.now + 1_700;
    story.observe({ ...up(), runner: { known: false, why: "too many calls", retryAt }, job: UNREAD });
    expect(story.task?.dueAt).toBe(retryAt);
  });

  test("N06: a pod that GET does not know within 120 s of the create is not dead; after that it is", () => {
    const story = starting();
    const hidden: Outcomes["observe"] = { pod: known({ pod: null, getGone: true }) };
    story.lookUntil(T0 + 120 * SECOND, hidden);
    expect(story.at).toBe("provisioning/start");
    story.observe(hidden);
    expect(story.reasons).toContain("attempt-pod-died");
  });
});
