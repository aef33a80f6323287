/**
 * The pods of the local RunPod: their life by the server's own timers, and what they cost.
 *
 * PROVISIONING (no machine) -> STARTING (placed) -> RUNNING (container started), then EXITED, ERROR or TERMINATED. A pod is
 * rented from its create until it is really gone, whatever its container does; that is also how long it is billed.
 */
import { join } from "node:path";
import { dataCenters } from "./catalog.ts";
import type { Catalog } from "./catalog.ts";
import { placeableCuda } from "./create.ts";
import type { CreateBody } from "./create.ts";
import { unpackImage, writeGpuReport } from "./image.ts";
import { LogBook } from "./logs.ts";
import { containerArgv } from "./processes.ts";
import type { Container, Containers } from "./processes.ts";
import { hostUuid } from "./random.ts";
import type { SeededRandom } from "./random.ts";
import type { Cloud, GpuOffer, GpuReport, PodScript, PodStatus, PodTiming } from "./types.ts";

export interface PodRecord {
  readonly id: string;
  readonly name: string;
  readonly foreign: boolean;
  readonly image: string;
  readonly body: CreateBody;
  readonly gpuId: string;
  readonly gpuCount: number;
  readonly cloud: Cloud;
  readonly cudaVersion: string | null;
  /** USD per hour for the whole pod. */
  readonly ratePerHour: number;
  readonly createdAt: number;
  readonly plannedDataCenter: string;
  readonly script: PodScript;
  readonly timing: PodTiming;
  /** The pod-scoped key RunPod puts into the container. */
  readonly key: string;
  readonly logs: LogBook;
  gpu: GpuReport;
  status: PodStatus;
  placedAt: number | null;
  startedAt: number | null;
  /** The container is up; `runtime` is null otherwise. */
  runtimeUp: boolean;
  restartAt: number | null;
  container: Container | null;
  containerStarts: number;
  utilization: number;
  /** Reads a deleted pod still lives through; null when no such delete is pending. */
  livesOnReads: number | null;
  releasedAt: number | null;
}

export interface PodWorld {
  readonly stateDir: string;
  readonly imageDir: string;
  readonly seed: number;
  readonly random: SeededRandom;
  readonly catalog: Catalog;
  readonly containers: Containers;
  readonly timing: PodTiming;
  readonly now: () => number;
}

/** Driver versions that offer a CUDA API version. */
const driverFor: Readonly<Record<string, string>> = {
  "12.4": "550.54.15",
  "12.6": "560.35.05",
  "12.8": "570.86.15",
  "12.9": "575.57.08",
  "13.0": "580.65.06",
};

export class Pods {
  readonly #world: PodWorld;
  readonly #pods = new Map<string, PodRecord>();
  #timer: ReturnType<typeof setTimeout> | null = null;
  #closed = false;

  constructor(world: PodWorld) {
    this.#world = world;
  }

  all(): readonly PodRecord[] {
    return [...this.#pods.values()];
  }

  get(id: string): PodRecord | null {
    return this.#pods.get(id) ?? null;
  }

  byKey(key: string): PodRecord | null {
    return this.all().find((pod) => pod.key === key) ?? null;
  }

  /** Rents a machine for an admitted create. */
  rent(body: CreateBody, offer: GpuOffer, image: string, script: PodScript): PodRecord {
    const { random, catalog, seed } = this.#world;
    const gpu = body.gpu ?? { id: offer.id, count: 1 };
    const cloud = script.assignedCloud ?? body.cloud ?? "SECURE";
    const allowed = (body.dataCenterIds ?? []).filter((id) => dataCenters.some((center) => center.id === id));
    const centers = allowed.length > 0 ? allowed : dataCenters.map((center) => center.id);
    const center = script.dataCenterId ?? centers[random.below(centers.length)] ?? "US-KS-2";
    const versions = placeableCuda(gpu, offer);
    const cuda = versions.includes("12.8") ? "12.8" : (versions.at(-1) ?? "12.8");
    const report: GpuReport = {
      name: offer.id,
      uuid: hostUuid(seed, offer.id, center, random.below(2)),
      memoryMb: offer.memoryGb * 1024,
      driver: driverFor[cuda] ?? "570.86.15",
      cuda,
      mode: "healthy",
    };
    const count = gpu.count ?? 1;
    return this.#add({
      name: body.name,
      foreign: false,
      image,
      body,
      gpuId: script.assignedGpuId ?? offer.id,
      gpuCount: script.assignedGpuCount ?? count,
      cloud,
      cudaVersion: cuda,
      ratePerHour: script.cost ?? catalog.price(offer, cloud) * count,
      createdAt: this.#world.now(),
      plannedDataCenter: center,
      script,
      gpu: { ...report, ...script.nvidiaSmi },
    });
  }

  /** Somebody else's pod: RUNNING for ever, no process. */
  rentForeign(name: string, env: Readonly<Record<string, string>>, offer: GpuOffer, createdAt: number): PodRecord {
    const pod = this.#add({
      name,
      foreign: true,
      image: "example/other:1",
      body: { name, image: "example/other:1", gpu: { id: offer.id, count: 1 }, env: { ...env } },
      gpuId: offer.id,
      gpuCount: 1,
      cloud: "SECURE",
      cudaVersion: "12.8",
      ratePerHour: offer.securePrice,
      createdAt,
      plannedDataCenter: "EU-RO-1",
      script: { boot: "running-without-container", timing: { placeMs: 0, bootMs: 0, listLagMs: 0 } },
      gpu: { name: offer.id, uuid: "GPU-other", memoryMb: 0, driver: "570.86.15", cuda: "12.8", mode: "healthy" },
    });
    this.advance();
    return pod;
  }

  #add(
    facts: Pick<
      PodRecord,
      | "name"
      | "foreign"
      | "image"
      | "body"
      | "gpuId"
      | "gpuCount"
      | "cloud"
      | "cudaVersion"
      | "ratePerHour"
      | "createdAt"
      | "plannedDataCenter"
      | "script"
      | "gpu"
    >,
  ): PodRecord {
    const pod: PodRecord = {
      ...facts,
      id: this.#world.random.word(14),
      key: `rpa_pod_${this.#world.random.word(24)}`,
      timing: { ...this.#world.timing, ...facts.script.timing },
      logs: new LogBook(this.#world.now),
      status: "PROVISIONING",
      placedAt: null,
      startedAt: null,
      runtimeUp: false,
      restartAt: null,
      container: null,
      containerStarts: 0,
      utilization: 0,
      livesOnReads: null,
      releasedAt: null,
    };
    this.#pods.set(pod.id, pod);
    pod.logs.add("system", "create pod");
    this.#arm();
    return pod;
  }

  /** Whether GET and DELETE by id answer for this pod now. */
  visible(pod: PodRecord): boolean {
    const now = this.#world.now();
    if (now < pod.createdAt + pod.timing.newbornMs) return false;
    return pod.releasedAt === null || now < pod.releasedAt + pod.timing.terminatedMs;
  }

  /** Whether lists show this pod now. */
  listed(pod: PodRecord): boolean {
    return pod.releasedAt === null && this.#world.now() >= pod.createdAt + pod.timing.listLagMs;
  }

  /** One answer has shown the pod: counts down a delete that was accepted and not yet done. */
  noteRead(pod: PodRecord): void {
    if (pod.livesOnReads === null) return;
    if (pod.livesOnReads <= 0) this.release(pod);
    else pod.livesOnReads -= 1;
  }

  /** The machine is given back, the bill ends, the processes go. */
  release(pod: PodRecord): void {
    if (pod.releasedAt !== null) return;
    pod.releasedAt = this.#world.now();
    pod.status = "TERMINATED";
    pod.livesOnReads = null;
    pod.restartAt = null;
    pod.runtimeUp = false;
    pod.logs.add("system", "terminate pod");
    pod.logs.end();
    void pod.container?.stop(pod.timing.killGraceMs);
  }

  setGpuReport(pod: PodRecord, change: Partial<GpuReport>): void {
    pod.gpu = { ...pod.gpu, ...change };
    if (pod.containerStarts > 0) writeGpuReport(this.#folder(pod), pod.gpu);
  }

  /** Does everything that is due at this instant. */
  advance(): void {
    if (this.#closed) return;
    for (const pod of this.#pods.values()) {
      while (this.#step(pod));
    }
    this.#arm();
  }

  /** One transition of one pod, if one is due. */
  #step(pod: PodRecord): boolean {
    const due = dueAt(pod);
    const now = this.#world.now();
    if (due === null || due > now) return false;
    switch (pod.status) {
      case "PROVISIONING":
        pod.placedAt = now;
        pod.status = "STARTING";
        return true;
      case "STARTING":
        if (pod.script.boot === "error") {
          pod.status = "ERROR";
          pod.logs.add("system", "error creating container: layer does not exist");
        } else this.#startContainer(pod);
        return true;
      case "RUNNING":
        this.#startContainer(pod);
        return true;
      case "EXITED":
      case "ERROR":
      case "TERMINATED":
        return false;
    }
  }

  #folder(pod: PodRecord): string {
    return join(this.#world.stateDir, "pods", pod.id);
  }

  #startContainer(pod: PodRecord): void {
    pod.status = "RUNNING";
    pod.restartAt = null;
    pod.startedAt = this.#world.now();
    pod.containerStarts += 1;
    if (pod.script.boot === "running-without-container") {
      pod.runtimeUp = pod.foreign;
      return;
    }
    pod.runtimeUp = true;
    const folder = this.#folder(pod);
    const files = unpackImage(this.#world.imageDir, folder);
    writeGpuReport(folder, pod.gpu);
    const container = this.#world.containers.start({
      argv: containerArgv(pod.body.args ?? "", pod.body.entrypoint ?? [], pod.body.cmd ?? []),
      cwd: files.cwd,
      env: { ...files.env, ...pod.body.env, ...this.#injected(pod) },
      onLine: (line) => pod.logs.add("container", line),
    });
    pod.container = container;
    if (!container) {
      // The image has no entry point: without a command there is nothing to run.
      this.#containerEnded(pod, 127);
      return;
    }
    pod.logs.add("system", "start container");
    void container.ended.then((code) => this.#containerEnded(pod, code));
  }

  /** What RunPod adds to a pod's environment (runpod-facts.md section 6.23). */
  #injected(pod: PodRecord): Record<string, string> {
    return {
      RUNPOD_API_KEY: pod.key,
      RUNPOD_POD_ID: pod.id,
      RUNPOD_DC_ID: pod.plannedDataCenter,
      RUNPOD_PUBLIC_IP: "192.0.2.10",
      RUNPOD_TCP_PORT_22: "10022",
    };
  }

  #containerEnded(pod: PodRecord, code: number): void {
    pod.container = null;
    pod.runtimeUp = false;
    if (pod.releasedAt !== null) return;
    pod.logs.add("system", `container ended with code ${code}`);
    switch (pod.script.onContainerExit ?? "exited") {
      case "exited":
        pod.status = "EXITED";
        break;
      case "restart":
        pod.restartAt = this.#world.now() + pod.timing.restartMs;
        this.#arm();
        break;
      case "runtime-gone":
        break;
    }
  }

  #arm(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#closed) return;
    const dues = this.all().flatMap((pod) => dueAt(pod) ?? []);
    if (dues.length === 0) return;
    const wait = Math.min(...dues) - this.#world.now();
    // At least 5 ms: the server's clock may stand still while the real one runs.
    this.#timer = setTimeout(() => this.advance(), Math.min(Math.max(wait, 5), 60_000));
  }

  close(): void {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    for (const pod of this.#pods.values()) pod.logs.end();
  }
}

/** When the pod's next own transition comes; null when it waits for somebody else. */
function dueAt(pod: PodRecord): number | null {
  switch (pod.status) {
    case "PROVISIONING":
      return pod.script.boot === "never" ? null : pod.createdAt + pod.timing.placeMs;
    case "STARTING":
      return pod.script.boot === "stuck" ? null : (pod.placedAt ?? pod.createdAt) + pod.timing.bootMs;
    case "RUNNING":
      return pod.restartAt;
    case "EXITED":
    case "ERROR":
    case "TERMINATED":
      return null;
  }
}
