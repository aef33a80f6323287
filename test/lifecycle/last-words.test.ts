/** Whose fault an early end was, what is remembered of it, and what a stranger's job costs. */
import { describe, expect, it } from "vitest";
import { judgeExit, runnerRefused, saysDeprecated } from "../../shared/lifecycle/last-words.ts";
import { podExitReasons } from "../../shared/runpod/pod-words.ts";
import { withoutBadDataCenters, weightOf } from "../../shared/runpod/bad-hosts.ts";
import { lastWords } from "../../shared/runpod/logs.ts";
import { route, type RouteView } from "../../shared/lifecycle/route.ts";
import type { Outcomes } from "../../shared/lifecycle/tasks.ts";
import {
  attemptAt,
  happen,
  requestIn,
  states,
  T0,
  tell,
  SECOND,
  MINUTE,
  known,
  pod,
  PULL,
  PROOF,
  UNREAD,
} from "./fixtures.ts";

const exit = (reason: string | null, code = 1) => ({ at: T0, code, reason, gpuUuid: null });

describe("an exit before acceptance", () => {
  it("blames the machine for what the machine said, and nobody's machine for what we sent", () => {
    const blamed = podExitReasons.filter((reason) => judgeExit(exit(reason), false).badHost);
    expect(blamed).toEqual([
      "nvidia-smi-failed",
      "gpu-error",
      "gpu-count",
      "gpu-name",
      "gpu-vram",
      "driver-unreadable",
      "driver-too-old",
      "smoke-failed",
      "runner-exited",
    ]);
    expect(judgeExit(exit("driver-too-old"), false)).toMatchObject({
      reason: "bad-host",
      rejection: "attempt-proof-refused",
    });
    expect(judgeExit(exit("nvrtc-checksum"), false)).toMatchObject({ reason: "startup", badHost: false });
  });

  it("without a reason goes by whether the proof had come", () => {
    expect(judgeExit(exit(null), false).rejection).toBe("attempt-proof-refused");
    expect(judgeExit(exit("a word of another day"), true).rejection).toBe("attempt-no-registration");
  });

  it("of a runner that GitHub finds too old is told by its code or its words, and by nothing else", () => {
    expect(runnerRefused(exit("runner-exited", 7))).toBe(true);
    expect(runnerRefused(exit("runner-exited", 1))).toBe(false);
    expect(runnerRefused(exit("gpu-error", 7))).toBe(false);
    expect(runnerRefused(null)).toBe(false);
    expect(
      saysDeprecated("An error occurred: Runner version v2.319.1 is deprecated and cannot receive messages."),
    ).toBe(true);
    expect(saysDeprecated("warning: this function is deprecated")).toBe(false);
  });
});

describe("a rejection", () => {
  const starting = requestIn(states.provisioning("start", { attempt: attemptAt("bought") }));
  const seen = { task: "observe", outcome: { pull: known(PULL), pod: known({ pod: pod(), getGone: false }) } } as const;

  it("remembers the card and the data centre of a machine that failed", () => {
    const failed = happen(starting, {
      kind: "exit",
      attemptId: "r1-1",
      code: 1,
      reason: "gpu-error",
      gpuUuid: "GPU-x",
    });
    const step = tell(failed.request, seen);
    expect(step.badHosts).toEqual([
      { attemptId: "r1-1", gpuUuid: "GPU-x", dataCenterId: "EU-1", why: "attempt-proof-refused" },
    ]);
  });

  it("for what we sent remembers nobody", () => {
    const failed = happen(starting, {
      kind: "exit",
      attemptId: "r1-1",
      code: 1,
      reason: "bad-facts",
      gpuUuid: "GPU-x",
    });
    expect(tell(failed.request, seen).badHosts).toEqual([]);
  });

  it("after the time for starting blames the machine for a runner that is offline, and not for a GitHub that is silent", () => {
    const bought = requestIn(states.provisioning("start", { attempt: attemptAt("bought") }));
    const proof = { ...PROOF, gpuName: "GPU A" };
    const { request } = happen(bought, { kind: "proof", attemptId: "r1-1", proof, knownBad: 0 });
    const late = (runner: Outcomes["observe"]["runner"]) =>
      tell(request, { task: "observe", outcome: { ...seen.outcome, ...(runner && { runner }) } }, T0 + 421 * SECOND);
    for (const step of [late(UNREAD), late(known({ online: false, busy: false }))])
      expect(step.request.state).toMatchObject({ rejection: { reason: "startup" } });
    expect(late(UNREAD).badHosts).toEqual([]);
    expect(late(known({ online: false, busy: false })).badHosts).toMatchObject([{ why: "attempt-no-registration" }]);
    expect(late(known("gone")).badHosts).toHaveLength(1);
  });

  it("by the log alone ends the request when the runner's release is refused", () => {
    const failed = happen(starting, {
      kind: "exit",
      attemptId: "r1-1",
      code: 1,
      reason: "runner-exited",
      gpuUuid: null,
    });
    const rejected = tell(failed.request, seen);
    const gone = tell(rejected.request, { task: "deregister", outcome: { kind: "gone" } });
    expect(gone.task?.task).toMatchObject({ kind: "read-record", logs: true });
    const said = "Runner version v2.319.1 is deprecated and cannot receive messages.";
    const heard = tell(gone.request, { task: "read-record", outcome: { pricePerHour: null, said } });
    expect(heard.request.state).toMatchObject({
      afterwards: { kind: "conclude", verdict: { reason: "runner-refused" } },
    });
    expect(heard.audit).toContainEqual({ act: "pod.last-words", reason: "startup", facts: { attempt: "r1-1", said } });
  });

  it("of a card that failed twice lately is declined, and not counted as one failure more", () => {
    const bought = requestIn(states.provisioning("start", { attempt: attemptAt("bought") }));
    const proof = { ...PROOF, gpuName: "GPU A" };
    const proven = happen(bought, { kind: "proof", attemptId: "r1-1", proof, knownBad: 2 });
    const step = tell(proven.request, seen);
    expect(step.request.state).toMatchObject({ step: "teardown", rejection: { reason: "bad-host" } });
    expect(step.badHosts).toEqual([]);
  });
});

describe("a stranger's job", () => {
  const running = requestIn(states.executing());
  const view = (request: typeof running | null): RouteView => ({
    appId: "1",
    repositoryId: "101",
    ofHead: () => [],
    ofPull: () => [],
    open: () => [],
    ofRun: (runId) => (runId === "900" ? running : null),
    ofCheckRun: () => null,
    ofRunner: (runnerId) => (runnerId === "41" ? request : null),
  });
  const signal = (runId: string, runnerId: string | null) =>
    ({
      kind: "workflow-job",
      action: "in_progress",
      jobId: "1",
      jobName: "x",
      runId,
      runAttempt: 1,
      status: "in_progress",
      conclusion: null,
      labels: [],
      runnerId,
    }) as const;

  it("is known by the runner's id, whatever run it belongs to", () => {
    expect(route(signal("666", "41"), view(running))).toEqual([
      { kind: "hint", requestId: "r1", stranger: { runnerId: "41", runId: "666" } },
    ]);
    expect(route(signal("900", "41"), view(running))).toEqual([{ kind: "hint", requestId: "r1" }]);
    expect(route(signal("666", "42"), view(running))).toMatchObject([{ kind: "note" }]);
    expect(route(signal("666", null), view(running))).toMatchObject([{ kind: "note" }]);
  });

  it("costs the pod at the next look, and the request goes on", () => {
    const told = happen(running, { kind: "hint", stranger: { runnerId: "41", runId: "666" } });
    expect(told.hurry).toBe(true);
    const step = tell(told.request, { task: "observe", outcome: { pull: known(PULL) } }, T0 + SECOND);
    expect(step.request.state).toMatchObject({ kind: "cleaning", verdict: { reason: "strangers-job" } });
    expect(step.request.state).toHaveProperty("resume.plan");
  });

  it("on an older runner, or told twice, changes nothing", () => {
    const stranger = { runnerId: "40", runId: "666" };
    expect(happen(running, { kind: "hint", stranger }).ignored).not.toBeNull();
    const once = happen(running, { kind: "hint", stranger: { runnerId: "41", runId: "666" } });
    expect(happen(once.request, { kind: "hint", stranger: { runnerId: "41", runId: "666" } }).ignored).not.toBeNull();
  });
});

describe("memory of bad hosts", () => {
  const memory = 6 * 60 * MINUTE;

  it("counts less with time and not at all at its end", () => {
    expect([0, memory / 2, memory, 2 * memory].map((age) => weightOf(T0 - age, T0, memory))).toEqual([1, 0.5, 0, 0]);
    expect(weightOf(T0, T0, 0)).toBe(0);
  });

  it("leaves out a data centre where pods keep failing, but never the last one, and only of a configured list", () => {
    const failed = (dataCenterId: string, age: number) => ({ dataCenterId, at: T0 - age });
    const lately = [failed("EU-1", 0), failed("EU-1", 0), failed("EU-2", 0)];
    expect(withoutBadDataCenters(["EU-1", "EU-2"], lately, T0, memory)).toEqual(["EU-2"]);
    expect(withoutBadDataCenters(["EU-1"], lately, T0, memory)).toEqual(["EU-1"]);
    expect(withoutBadDataCenters([], lately, T0, memory)).toEqual([]);
    const old = [failed("EU-1", memory / 2), failed("EU-1", memory / 2), failed("EU-1", 0)];
    expect(withoutBadDataCenters(["EU-1", "EU-2"], old, T0 + MINUTE, memory)).toEqual(["EU-1", "EU-2"]);
  });
});

describe("the line that says most", () => {
  const logs = (...lines: readonly [source: string, line: string][]) => ({
    lines: lines.map(([source, line]) => ({ source, line, at: "" })),
    unreadable: 0,
  });
  const words = (...lines: readonly [source: string, line: string][]) => lastWords(logs(...lines), saysDeprecated);

  it("is the script's own refusal, then what tells, then the runner's last line, then ours, then RunPod's", () => {
    const refused = ["container", "[gpu-gate] REFUSED (gpu-count): two. The runner is not started."] as const;
    const old = ["container", "Runner version v2.1 is deprecated and cannot receive messages."] as const;
    const plain = ["container", "An error occurred"] as const;
    const ours = ["container", "[gpu-gate] the runner ended with status 1"] as const;
    const system = ["system", "pulling image"] as const;
    expect(words([...system], [...refused], [...old], [...plain], [...ours])).toContain("REFUSED (gpu-count)");
    expect(words([...system], [...old], [...plain], [...ours])).toContain("deprecated");
    expect(words([...system], [...plain], [...ours])).toBe("An error occurred");
    expect(words([...system], [...ours])).toContain("status 1");
    expect(words([...system])).toBe("pulling image");
    expect(words()).toBeNull();
  });

  it("loses everything a check could misread", () => {
    expect(words(["container", "see <b>@all</b> | [x](http://evil) `rm` #1 \u202eabc"])).toBe(
      "see b all /b x (http://evil) rm 1 abc",
    );
  });
});
