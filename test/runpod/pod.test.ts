import { describe, expect, test } from "vitest";
import { parseLegacyPod, parsePod, podIsGone } from "../../shared/runpod/pod.ts";
import type { Pod, ParsedPod } from "../../shared/runpod/pod.ts";

const V2 = {
  id: "7h9k2m4n6p",
  name: "gpu-gate-x-1",
  image: "img",
  env: { GPU_GATE_DEPLOYMENT: "x", GPU_GATE_JIT_CONFIG: "jit-canary", RUNPOD_API_KEY: "key-canary" },
  status: "RUNNING",
  gpu: { id: "NVIDIA L4", count: 1 },
  cloud: "SECURE",
  dataCenterId: "US-KS-2",
  cudaVersion: "12.8",
  ssh: { proxy: { host: "ssh.example" }, direct: null },
  cost: 0.44,
  runtime: { uptime: 3600, gpus: [{ util: 94, memoryUtil: 78 }], cpu: { util: 3 } },
  createdAt: "2026-06-01T12:00:00Z",
  startedAt: "2026-06-01T12:02:00Z",
  somethingNew: { of: "theirs" },
};

function read(parsed: ParsedPod): Pod {
  if (!parsed.ok) throw new Error(parsed.what);
  return parsed.pod;
}

describe("a v2 pod", () => {
  test("reads the documented shape and ignores fields it does not know", () => {
    expect(read(parsePod(V2))).toEqual({
      id: "7h9k2m4n6p",
      name: "gpu-gate-x-1",
      status: "RUNNING",
      gpuId: "NVIDIA L4",
      gpuCount: 1,
      cloud: "SECURE",
      dataCenterId: "US-KS-2",
      sshAssigned: true,
      costPerHour: 0.44,
      createdAtMs: Date.UTC(2026, 5, 1, 12),
      startedAtMs: Date.UTC(2026, 5, 1, 12, 2),
      runtimeUp: true,
      gpuUtilization: [94],
      cpuUtilization: 3,
      cudaVersion: "12.8",
      tags: { GPU_GATE_DEPLOYMENT: "x" },
      unreadable: [],
    });
  });

  test("N152: of the environment only our own tags go further", () => {
    const shown = JSON.stringify(parsePod(V2));
    expect(shown).not.toContain("canary");
  });

  test("a pod without a machine has neither a data centre nor an SSH proxy", () => {
    const pod = read(parsePod({ ...V2, dataCenterId: null, ssh: { proxy: null, direct: null } }));
    expect(pod).toMatchObject({ dataCenterId: null, sshAssigned: false, unreadable: [] });
  });

  test.each([
    ["null means there is none", null, false],
    ["an empty block says nothing", {}, null],
    ["live figures mean it is up", { uptime: 0 }, true],
  ])("runtime: %s", (_what, runtime, runtimeUp) => {
    expect(read(parsePod({ ...V2, runtime })).runtimeUp).toBe(runtimeUp);
  });

  test("a field that cannot be read is null and named, and the pod stays", () => {
    const pod = read(parsePod({ ...V2, cost: "many", createdAt: "yesterday", cloud: "MOON", gpu: null, env: "x" }));
    expect(pod).toMatchObject({ id: V2.id, costPerHour: null, createdAtMs: null, cloud: null, gpuId: null, tags: {} });
    expect(pod.unreadable).toEqual(["cloud", "cost", "createdAt"]);
  });

  test("a status nobody knows is neither a known one nor gone", () => {
    const pod = read(parsePod({ ...V2, status: "HIBERNATING" }));
    expect(pod.status).toBe("UNKNOWN");
    expect(podIsGone(pod)).toBe(false);
  });

  test("only TERMINATED is gone", () => {
    expect(podIsGone(read(parsePod({ ...V2, status: "TERMINATED" })))).toBe(true);
    for (const status of ["EXITED", "ERROR", "TERMINATING", "RUNNING"]) {
      expect(podIsGone(read(parsePod({ ...V2, status })))).toBe(false);
    }
  });

  test("Go's zero time is no start", () => {
    expect(read(parsePod({ ...V2, startedAt: "0001-01-01T00:00:00Z" }))).toMatchObject({
      startedAtMs: null,
      unreadable: [],
    });
  });

  test.each([[null], ["pod"], [[]], [{}], [{ id: "" }], [{ id: 12 }], [{ id: null }]])("%j is no pod", (value) => {
    expect(parsePod(value).ok).toBe(false);
  });
});

describe("a record in the retired v1 shape", () => {
  const V1 = {
    id: "p1",
    name: "n",
    desiredStatus: "RUNNING",
    costPerHr: "0.74",
    adjustedCostPerHr: 0.69,
    gpuCount: 1,
    lastStartedAt: "2026-04-21 00:06:57.505 +0000 UTC",
    machineId: "m1",
    machine: { gpuTypeId: "NVIDIA A40", dataCenterId: "EU-1", secureCloud: true },
    env: {},
  };

  test("reads the old names", () => {
    expect(read(parseLegacyPod(V1))).toMatchObject({
      status: "RUNNING",
      gpuId: "NVIDIA A40",
      gpuCount: 1,
      cloud: "SECURE",
      dataCenterId: "EU-1",
      costPerHour: 0.69,
      startedAtMs: Date.UTC(2026, 3, 21, 0, 6, 57, 505),
    });
  });

  test("a savings-plan price of 0 is no price; the list price may be text", () => {
    expect(read(parseLegacyPod({ ...V1, adjustedCostPerHr: 0 })).costPerHour).toBe(0.74);
  });

  test.each([
    ["the machine's own id", { gpuTypeId: "A" }, "A"],
    ["an empty id is an answer", { gpuTypeId: "", gpuType: { id: "B" } }, ""],
    ["the type of the machine", { gpuType: { id: "B" } }, "B"],
    ["an empty machine", {}, null],
  ])("assigned GPU: %s", (_what, machine, gpuId) => {
    expect(read(parseLegacyPod({ ...V1, machine })).gpuId).toBe(gpuId);
  });
});
