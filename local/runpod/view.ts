/** Pods as the API shows them (`Pod` of the OpenAPI document): the environment in clear, cost 0 once it no longer runs. */
import type { PodRecord } from "./pods.ts";
import type { PodStatus } from "./types.ts";

const actions: Readonly<Record<PodStatus, readonly string[]>> = {
  PROVISIONING: ["stop", "terminate"],
  STARTING: ["stop", "terminate"],
  RUNNING: ["stop", "restart", "terminate"],
  EXITED: ["start", "terminate"],
  ERROR: ["terminate"],
  TERMINATED: [],
};

export function podAnswer(pod: PodRecord, now: number): Record<string, unknown> {
  const placed = pod.placedAt !== null;
  const ended = pod.status === "EXITED" || pod.status === "TERMINATED";
  return {
    id: pod.id,
    name: pod.name,
    image: pod.image,
    args: pod.body.args ?? "",
    disk: pod.body.disk ?? 50,
    ports: pod.body.ports ?? [],
    env: pod.body.env ?? {},
    registry: pod.body.registry ?? null,
    status: pod.status,
    actions: actions[pod.status],
    mounts: pod.body.mounts ?? {},
    gpu: { id: pod.gpuId, count: pod.gpuCount },
    cloud: pod.cloud,
    dataCenterId: placed ? pod.plannedDataCenter : null,
    cudaVersion: placed ? pod.cudaVersion : null,
    ssh: { proxy: placed ? sshProxy(pod.id) : null, direct: null },
    template: null,
    cost: ended ? 0 : pod.ratePerHour,
    locked: false,
    globalNetworking: { enabled: false },
    runtime: pod.status === "RUNNING" && pod.runtimeUp ? runtime(pod, now) : null,
    createdAt: new Date(pod.createdAt).toISOString(),
    startedAt: pod.startedAt === null ? null : new Date(pod.startedAt).toISOString(),
  };
}

function runtime(pod: PodRecord, now: number): Record<string, unknown> {
  return {
    uptime: Math.max(0, Math.floor((now - (pod.startedAt ?? now)) / 1000)),
    gpus: Array.from({ length: pod.gpuCount }, () => ({ util: pod.utilization, memoryUtil: pod.utilization })),
    cpu: { util: pod.utilization },
    memory: { util: 5 },
    ports: [],
  };
}

function sshProxy(id: string): Record<string, unknown> {
  const username = `${id}-local`;
  return { host: "ssh.local.invalid", port: 22, username, command: `ssh ${username}@ssh.local.invalid` };
}
