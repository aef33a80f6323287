import { describe, expect, test } from "vitest";
import { checkAssignedGpu, FRESH_POD, judgePod } from "../../shared/runpod/pod-health.ts";
import type { PodHealth } from "../../shared/runpod/pod-health.ts";
import type { Pod } from "../../shared/runpod/pod.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const EXPECTED = { createdAtMs: T0, acceptedIds: ["NVIDIA L4"], ceilingUsdPerHour: 1.6 };

const POD: Pod = {
  id: "pod1",
  name: "n",
  status: "PROVISIONING",
  gpuId: "NVIDIA L4",
  gpuCount: 1,
  cloud: "SECURE",
  dataCenterId: null,
  sshAssigned: false,
  costPerHour: 0.43,
  createdAtMs: T0,
  startedAtMs: null,
  runtimeUp: null,
  gpuUtilization: null,
  cpuUtilization: null,
  cudaVersion: null,
  tags: {},
  unreadable: [],
};
const UP: Pod = {
  ...POD,
  status: "RUNNING",
  dataCenterId: "US-1",
  sshAssigned: true,
  startedAtMs: T0,
  runtimeUp: true,
};

/** What each look in turn says; null is a look that failed. Each look is 10 s after the one before. */
function watch(...looks: readonly (Pod | null)[]): readonly PodHealth[] {
  let memory = FRESH_POD;
  return looks.map((look, index) => {
    const judged = judgePod(memory, look, EXPECTED, T0 + (index + 1) * 10_000);
    memory = judged.memory;
    return judged.health;
  });
}
const last = (...looks: readonly (Pod | null)[]): PodHealth | undefined => watch(...looks).at(-1);

describe("a pod from one look to the next", () => {
  test("provisioning, starting, up", () => {
    const starting: Pod = { ...POD, status: "STARTING", dataCenterId: "US-1", sshAssigned: true };
    expect(watch(POD, starting, UP).map((health) => health.kind)).toEqual(["starting", "starting", "up"]);
  });

  test.each([
    ["ERROR", "error"],
    ["EXITED", "exited"],
    ["STOPPED", "exited"],
    ["TERMINATED", "terminated"],
    ["TERMINATING", "terminated"],
    ["DEAD", "terminated"],
  ] as const)("N130: %s is a death", (status, why) => {
    expect(last({ ...UP, status })).toEqual({ kind: "dead", why });
  });

  test("RUNNING with a runtime that was there and is gone is a death", () => {
    expect(last(UP, { ...UP, runtimeUp: false })).toEqual({ kind: "dead", why: "runtime-lost" });
  });

  test("a runtime never seen is not a death, however long it takes", () => {
    const image: Pod = { ...UP, runtimeUp: false };
    expect(last(...Array.from({ length: 60 }, () => image))).toEqual({ kind: "starting" });
  });

  test("a runtime block that says nothing is not a lost runtime", () => {
    expect(last(UP, { ...UP, runtimeUp: null })).toEqual({ kind: "up" });
  });

  test("N22: a start time that moves is a container that restarts for ever", () => {
    expect(last(UP, { ...UP, startedAtMs: T0 + 30_000 })).toEqual({ kind: "dead", why: "restarted" });
    expect(last({ ...UP, status: "STARTING" }, { ...UP, startedAtMs: T0 + 30_000 })).toMatchObject({ kind: "dead" });
  });

  test("the same start with its fraction cut is no move, and neither is a start that is not told", () => {
    expect(last({ ...UP, startedAtMs: T0 + 505 }, { ...UP, startedAtMs: T0 })).toEqual({ kind: "up" });
    expect(last(UP, { ...UP, startedAtMs: null })).toEqual({ kind: "up" });
  });

  test("slow drift does not hide a restart: the first start stays the measure", () => {
    const drift = [0, 600, 1200].map((ms) => ({ ...UP, startedAtMs: T0 + ms }));
    expect(last(...drift)).toEqual({ kind: "dead", why: "restarted" });
  });

  test("I11: a failed look changes nothing", () => {
    expect(watch(null, null).map((health) => health.kind)).toEqual(["starting", "starting"]);
    expect(watch(UP, null, UP).map((health) => health.kind)).toEqual(["up", "up", "up"]);
  });

  test("an unknown status is not a death", () => {
    expect(last({ ...UP, status: "UNKNOWN" })).toEqual({ kind: "up" });
  });
});

describe("no machine", () => {
  const at = (seconds: number, pod: Pod): string => judgePod(FRESH_POD, pod, EXPECTED, T0 + seconds * 1000).health.kind;

  test("quirk 10: after 120 s without data centre and SSH proxy the host is bad", () => {
    expect(at(119, POD)).toBe("starting");
    expect(at(120, POD)).toBe("no-machine");
  });

  test("either sign of a machine is enough", () => {
    expect(at(300, { ...POD, sshAssigned: true })).toBe("starting");
    expect(at(300, { ...POD, dataCenterId: "US-1" })).toBe("starting");
  });
});

describe("the assigned GPU", () => {
  test("what we asked for passes", () => {
    expect(checkAssignedGpu(UP, EXPECTED)).toBeNull();
  });

  test.each([
    ["N84: another type", { gpuId: "NVIDIA L40S" }, "gpu-foreign"],
    ["quirk 18: a name that differs by one space", { gpuId: "NVIDIA  L4" }, "gpu-foreign"],
    ["no id", { gpuId: null }, "gpu-missing"],
    ["an empty id", { gpuId: "" }, "gpu-missing"],
    ["none on the pod", { gpuCount: 0 }, "gpu-count"],
    ["two on the pod", { gpuCount: 2 }, "gpu-count"],
    ["somebody's cellar", { cloud: "COMMUNITY" as const }, "cloud"],
    ["N165: dearer than the ceiling", { costPerHour: 1.61 }, "price"],
  ])("%s is refused", (_what, changes, why) => {
    expect(checkAssignedGpu({ ...UP, ...changes }, EXPECTED)).toMatchObject({ why });
    expect(last({ ...UP, ...changes })).toMatchObject({ kind: "wrong", why });
  });

  test.each([{ gpuCount: null }, { cloud: null }, { costPerHour: null }, { costPerHour: 0 }])(
    "%j is not told",
    (changes) => {
      expect(checkAssignedGpu({ ...UP, ...changes }, EXPECTED)).toBeNull();
    },
  );

  test("a dead pod is dead, not wrong: it reports neither GPU nor price", () => {
    expect(last({ ...UP, status: "TERMINATED", gpuId: null })).toMatchObject({ kind: "dead" });
  });
});
