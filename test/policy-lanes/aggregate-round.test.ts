import { describe, expect, it } from "vitest";
import { configFrom } from "../../shared/config/load.ts";
import {
  firstRound,
  judgeRound,
  reopenedRound,
  type HeadFacts,
  type Round,
} from "../../shared/policy/aggregate-round.ts";
import { aggregateView, endedView, troubleView } from "../../shared/policy/aggregate-view.ts";
import type { ObservedCheck } from "../../shared/policy/aggregator.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const OWN = "4711";

const CONFIG = configFrom({
  lanes: {
    gpu: {},
    coverage_gpu: {
      checks: ["Coverage GPU"],
      own: {
        runs_on: ["self-hosted", "linux", "gpu-full"],
        switch: "GPU_COVERAGE_ENABLED",
        probe: "Probe GPU",
        runbook: "https://example.org/runbook",
      },
    },
  },
  required_checks: [{ name: "Docs" }, { name: "Coverage GPU" }, { name: "CI GPU gate", report: "must" }],
  aggregator: { name: "Required checks" },
});

let serial = 0;

function check(name: string, conclusion: string | null, at: number, more: Partial<ObservedCheck> = {}): ObservedCheck {
  serial += 1;
  return {
    id: String(1_000 + serial),
    name,
    status: conclusion === null ? "in_progress" : "completed",
    conclusion,
    startedAt: at,
    createdAt: null,
    completedAt: conclusion === null ? null : at + MINUTE,
    appId: name === "CI GPU gate" ? OWN : "15368",
    ...more,
  };
}

function facts(checks: readonly ObservedCheck[], more: Partial<HeadFacts> = {}): HeadFacts {
  return { headRef: "fix/example", draft: false, switches: {}, checks, draftAt: null, againAt: null, ...more };
}

const green = (at: number) => [check("Docs", "success", at), check("CI GPU gate", "success", at)];

function judge(round: Round, given: HeadFacts, now: number) {
  return judgeRound(round, given, CONFIG, OWN, now);
}

/** A round that has concluded green an hour after it began. */
function passed(): { round: Round; checks: ObservedCheck[] } {
  const checks = green(T0 + MINUTE);
  const { round, result, publish } = judge(firstRound(T0), facts(checks), T0 + HOUR);
  expect([result.decision, publish]).toEqual(["pass", "same"]);
  return { round, checks };
}

describe("a round", () => {
  it("waits for what has not reported, with the configured grace, and concludes once", () => {
    const early = judge(firstRound(T0), facts([]), T0 + MINUTE);
    expect(early).toMatchObject({ publish: "same", result: { decision: "wait", until: T0 + 2 * MINUTE + 1 } });
    const { round, checks } = passed();
    expect(judge(round, facts(checks), T0 + 2 * HOUR).publish).toBe("none");
  });

  it("is not green before the grace is over, even when everything there is green: it may be of an earlier run", () => {
    const checks = [...green(T0 - HOUR), check("Coverage GPU", "success", T0 - HOUR)];
    const soon = judge(firstRound(T0), facts(checks), T0 + MINUTE);
    expect(soon.result).toMatchObject({ decision: "wait", running: [], missing: [], until: T0 + 2 * MINUTE + 1 });
    expect(aggregateView(soon.result, CONFIG, HOUR).conclusion).toBeNull();
    expect(judge(soon.round, facts(checks), T0 + 2 * MINUTE + 1).result.decision).toBe("pass");
    // Red needs no patience.
    const red = [...checks, check("Docs", "failure", T0 - MINUTE)];
    expect(judge(firstRound(T0), facts(red), T0 + MINUTE).result.decision).toBe("fail");
  });

  it("begins anew when a check runs again after the answer, with the whole time to wait", () => {
    const { round, checks } = passed();
    const rerun = [...checks, check("Docs", null, T0 + 9 * HOUR)];
    const again = judge(round, facts(rerun), T0 + 9 * HOUR);
    expect(again).toMatchObject({ publish: "new", result: { decision: "wait", running: ["Docs"] } });
    expect(again.round.startedAt).toBe(T0 + 9 * HOUR);
    expect(again.round.key).toBeNull();
  });

  it("does not begin anew for a check that nobody requires", () => {
    const { round, checks } = passed();
    expect(judge(round, facts([...checks, check("Lint", null, T0 + 9 * HOUR)]), T0 + 9 * HOUR).publish).toBe("none");
  });

  it("says a new answer when the same checks came to another end, without a new wait", () => {
    const running = [check("Docs", null, T0), check("CI GPU gate", "success", T0)];
    const late = judge(firstRound(T0), facts(running), T0 + 4 * HOUR);
    expect(aggregateView(late.result, CONFIG, 4 * HOUR)).toMatchObject({
      conclusion: "timed_out",
      title: "Still running after 240 min: Docs",
    });
    expect(judge(late.round, facts(running), T0 + 5 * HOUR).publish).toBe("none");
    const done = running.map((one) =>
      one.name === "Docs" ? { ...one, status: "completed", conclusion: "success" } : one,
    );
    expect(judge(late.round, facts(done), T0 + 5 * HOUR)).toMatchObject({
      publish: "new",
      result: { decision: "pass" },
    });
  });

  it("turns when a lane is switched on after the answer", () => {
    const { round, checks } = passed();
    const on = judge(round, facts(checks, { switches: { GPU_COVERAGE_ENABLED: "true" } }), T0 + 2 * HOUR);
    expect(on).toMatchObject({
      publish: "new",
      result: { failed: [{ name: "Coverage GPU", why: "lane-enabled-absent" }] },
    });
  });

  it("answers a person once for each word", () => {
    const { round, checks } = passed();
    const asked = judge(round, facts(checks, { againAt: T0 + 2 * HOUR }), T0 + 2 * HOUR);
    expect(asked).toMatchObject({ publish: "new", result: { decision: "wait", missing: ["Coverage GPU"] } });
    const later = judge(asked.round, facts(checks, { againAt: T0 + 2 * HOUR }), T0 + 3 * HOUR);
    expect(later).toMatchObject({ publish: "same", result: { decision: "pass" } });
    expect(judge(later.round, facts(checks, { againAt: T0 + 2 * HOUR }), T0 + 3 * HOUR).publish).toBe("none");
  });
});

describe("a draft", () => {
  it("is never green, takes a green answer back, and is answered when it is ready", () => {
    const { round, checks } = passed();
    const draft = judge(round, facts(checks, { draft: true }), T0 + 2 * HOUR);
    expect(draft).toMatchObject({ publish: "new", result: { decision: "wait", until: null } });
    expect(aggregateView(draft.result, CONFIG, HOUR)).toMatchObject({ status: "queued", conclusion: null });
  });

  it("leaves what its checks said behind: skipped while it was a draft is not skipped now", () => {
    const skipped = [check("Docs", "skipped", T0), check("CI GPU gate", "success", T0)];
    const draft = judge(firstRound(T0), facts(skipped, { draft: true }), T0 + MINUTE);
    const ready = T0 + 3 * HOUR;
    // Seen as a draft by a list between two looks.
    const now = judge(draft.round, facts(skipped, { draftAt: ready - MINUTE }), ready);
    expect(now).toMatchObject({
      publish: "same",
      result: { decision: "wait", missing: ["Docs", "Coverage GPU", "CI GPU gate"] },
    });
    const rerun = [...skipped, ...green(ready + MINUTE)];
    expect(judge(now.round, facts(rerun), ready + HOUR).result.decision).toBe("pass");
    expect(judge(now.round, facts(skipped), ready + HOUR).result).toMatchObject({
      decision: "fail",
      failed: [{ name: "CI GPU gate", why: "never-reported" }],
    });
  });
});

describe("a lane's job behind its probe", () => {
  const ON = { switches: { GPU_COVERAGE_ENABLED: "true" } };

  it("is not the one of the attempt before once the probe runs again", () => {
    const first = [...green(T0), check("Probe GPU", "success", T0), check("Coverage GPU", "success", T0 + 2 * MINUTE)];
    const done = judge(firstRound(T0), facts(first, ON), T0 + HOUR);
    expect(done.result.decision).toBe("pass");
    const probing = [...first, check("Probe GPU", null, T0 + 2 * HOUR)];
    const again = judge(done.round, facts(probing, ON), T0 + 2 * HOUR);
    expect(again).toMatchObject({ publish: "new", result: { decision: "wait", delayed: ["Coverage GPU"] } });
  });

  it("a failed probe is told first, with the lane and its runbook", () => {
    const checks = [...green(T0), check("Probe GPU", "failure", T0), check("Coverage GPU", "skipped", T0 + MINUTE)];
    const { result } = judge(firstRound(T0), facts(checks, ON), T0 + HOUR);
    const view = aggregateView(result, CONFIG, HOUR);
    expect(view).toMatchObject({ conclusion: "failure", title: "1 of 3 not accepted: Coverage GPU" });
    expect(view.summary.split("\n")[0]).toBe(
      "**Lane `coverage_gpu` is on, but its probe `Probe GPU` ended failure**: no machine was there for `Coverage GPU`. [Runbook](https://example.org/runbook)",
    );
  });
});

it("takes the gate's own check from this App alone, without being told", () => {
  const forged = check("CI GPU gate", "success", T0, { appId: "15368" });
  const { result } = judge(firstRound(T0), facts([check("Docs", "success", T0), forged]), T0 + HOUR);
  expect(result).toMatchObject({
    decision: "fail",
    failed: [{ name: "CI GPU gate", why: "never-reported" }],
    lookAlikes: [{ name: "CI GPU gate", appId: "15368", ignored: true }],
  });
});

it("a head that comes back gets a round of its own, with patience", () => {
  const { round, checks } = passed();
  const back = reopenedRound({ ...round, key: "ended", judged: [] }, T0 + 5 * HOUR);
  expect(judge(back, facts(checks), T0 + 5 * HOUR)).toMatchObject({ publish: "new", result: { decision: "wait" } });
});

describe("what the check says", () => {
  it("calls a lane that is off NOT RUN below the table, accepted and not passed", () => {
    const { result } = judge(firstRound(T0), facts(green(T0)), T0 + HOUR);
    const { title, summary } = aggregateView(result, CONFIG, HOUR);
    expect(title).toBe("All 3 required checks are accepted");
    expect(summary).toContain("| Coverage GPU | NOT RUN | yes | lane is off (`GPU_COVERAGE_ENABLED` is not `true`) |");
    expect(summary).toContain(
      "NOT RUN: `Coverage GPU` (lane `coverage_gpu`). Accepted while the lane is off; it has not passed.",
    );
  });

  it("guesses nothing of what it could not read", () => {
    expect(troubleView("The switch X cannot be read", false)).toMatchObject({
      status: "in_progress",
      conclusion: null,
    });
    expect(troubleView("The switch X cannot be read", true)).toMatchObject({ conclusion: "timed_out" });
    expect(endedView("The pull request was closed").conclusion).toBe("cancelled");
  });
});

describe("what went wrong and was not repeated", () => {
  /** Ready three minutes after it was last seen as a draft, and looked at when the grace is over. */
  function ready(checks: (at: number) => readonly ObservedCheck[], before: readonly ObservedCheck[]) {
    const draft = judge(firstRound(T0), facts(before, { draft: true }), T0 + 10 * MINUTE).round;
    const at = T0 + 11 * MINUTE;
    const first = judge(draft, facts([...before, ...checks(at)], { draftAt: T0 + 10 * MINUTE }), at);
    const given = facts([...before, ...checks(at)], { draftAt: T0 + 10 * MINUTE });
    return { first: first.result, later: judge(first.round, given, at + 2 * MINUTE + 1).result };
  }
  const gate = (at: number) => [check("CI GPU gate", "success", at)];

  it("in a draft is red when it is ready: most workflows do not run again for that", () => {
    const { first, later } = ready(gate, [check("Docs", "failure", T0)]);
    expect(first.decision).toBe("wait");
    expect(later).toMatchObject({ decision: "fail", failed: [{ name: "Docs", why: "not-accepted" }] });
  });

  it("has the whole grace to run again, also where nothing else is missing", () => {
    const config = configFrom({ required_checks: [{ name: "Docs" }], aggregator: { name: "Required checks" } });
    const at = T0 + 11 * MINUTE;
    const docs = check("Docs", "failure", T0);
    const judgeAt = (round: Round, draft: boolean, now: number) =>
      judgeRound(round, facts([docs], { draft, draftAt: T0 + 10 * MINUTE }), config, OWN, now);
    const draft = judgeAt(firstRound(T0), true, T0 + 10 * MINUTE).round;
    const first = judgeAt(draft, false, at);
    expect(first.result).toMatchObject({ decision: "wait", missing: ["Docs"] });
    expect(judgeAt(first.round, false, at + 2 * MINUTE).result.decision).toBe("wait");
    expect(judgeAt(first.round, false, at + 2 * MINUTE + 1).result.decision).toBe("fail");
  });

  it("and is still running since it was a draft is waited for", () => {
    expect(ready(gate, [check("Docs", null, T0)]).later).toMatchObject({ decision: "wait", running: ["Docs"] });
  });

  it("is forgotten where it ran again, and a draft's success never counts", () => {
    const again = (at: number) => [...gate(at), check("Docs", "success", at)];
    expect(ready(again, [check("Docs", "failure", T0)]).later.decision).toBe("pass");
    const gone = ready(() => [], [check("Docs", "success", T0), check("CI GPU gate", "success", T0)]).later;
    expect(gone).toMatchObject({ decision: "fail", failed: [{ name: "CI GPU gate", why: "never-reported" }] });
  });

  it("counts although another check of the name that it waits for began later", () => {
    const config = configFrom({
      required_checks: [{ name: "Hardware", waits_for: ["Build"], app_id: "99" }, { name: "Build" }],
      aggregator: { name: "Required checks" },
    });
    const hardware = check("Hardware", "failure", T0 + MINUTE, { appId: "99" });
    const build = check("Build", "success", T0 + 10 * MINUTE);
    const at = (now: number) => judgeRound(firstRound(T0), facts([hardware, build]), config, OWN, now).result;
    expect(at(T0 + 12 * MINUTE)).toMatchObject({ decision: "wait", delayed: ["Hardware"] });
    expect(at(T0 + HOUR)).toMatchObject({ decision: "fail", failed: [{ name: "Hardware", why: "not-accepted" }] });
  });

  it("and a success counts no longer then: what it waits for was made anew", () => {
    const config = configFrom({
      required_checks: [{ name: "Hardware", waits_for: ["Build"], app_id: "99", report: "must" }, { name: "Build" }],
      aggregator: { name: "Required checks" },
    });
    const hardware = check("Hardware", "success", T0 + MINUTE, { appId: "99" });
    const build = check("Build", "success", T0 + 10 * MINUTE);
    const at = (now: number) => judgeRound(firstRound(T0), facts([hardware, build]), config, OWN, now).result;
    expect(at(T0 + HOUR).decision).not.toBe("pass");
  });
});
