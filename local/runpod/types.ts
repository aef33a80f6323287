/**
 * The words of the local RunPod: what it is started with, what a scenario may script, and what its books hold.
 *
 * Every duration is in milliseconds of the server's own clock, every amount of money in micro-dollars (10^-6 USD).
 */
import type { LocalRegistry } from "../registry/server.ts";
import type { FaultControl } from "./faults.ts";

export type Cloud = "SECURE" | "COMMUNITY";
export type StockLevel = "NONE" | "LOW" | "MEDIUM" | "HIGH";
export type PodStatus = "PROVISIONING" | "STARTING" | "RUNNING" | "EXITED" | "ERROR" | "TERMINATED";

/** One row of the catalog. Prices in USD per hour for one GPU. */
export interface GpuOffer {
  readonly id: string;
  readonly name: string;
  readonly manufacturer: "NVIDIA" | "AMD";
  readonly memoryGb: number;
  readonly securePrice: number;
  readonly communityPrice: number;
  readonly maxCount: number;
  readonly stock: StockLevel;
  /** CUDA versions of the machines with this GPU, oldest first. */
  readonly cudaVersions: readonly string[];
}

/** What `nvidia-smi` on a pod tells. `mode` other than `healthy` is a broken host. */
export interface GpuReport {
  readonly name: string;
  readonly uuid: string;
  readonly memoryMb: number;
  readonly driver: string;
  readonly cuda: string;
  readonly mode: "healthy" | "error" | "none" | "two" | "garbage" | "missing" | "ecc";
}

/** How the next pod differs from a good one. Absent fields mean: as it should be. */
export interface PodScript {
  /**
   * `never`: stays PROVISIONING without a machine. `stuck`: has a machine, stays STARTING. `error`: becomes ERROR.
   * `running-without-container`: RUNNING and billed, but nothing ever runs.
   */
  readonly boot?: "never" | "stuck" | "error" | "running-without-container";
  readonly nvidiaSmi?: Partial<GpuReport>;
  /** What RunPod does when the container ends. Default `exited`. */
  readonly onContainerExit?: "exited" | "restart" | "runtime-gone";
  /** The answer names this GPU type instead of the rented one. */
  readonly assignedGpuId?: string;
  readonly assignedGpuCount?: number;
  readonly assignedCloud?: Cloud;
  /** USD per hour instead of the catalog's price, in the answers and in the bill. */
  readonly cost?: number;
  readonly dataCenterId?: string;
  readonly timing?: Partial<PodTiming>;
}

export interface PodTiming {
  /** From create to a machine: dataCenterId and ssh.proxy are null before. */
  readonly placeMs: number;
  /** From the machine to a running container. */
  readonly bootMs: number;
  /** A new pod is missing from lists this long. */
  readonly listLagMs: number;
  /** GET and DELETE of a new pod answer 404 this long. */
  readonly newbornMs: number;
  /** GET shows TERMINATED this long after a delete, 404 afterwards. */
  readonly terminatedMs: number;
  /** Between two starts of a container in a restart loop. */
  readonly restartMs: number;
  /** From SIGTERM to SIGKILL when a pod is deleted. */
  readonly killGraceMs: number;
}

export const defaultTiming: PodTiming = {
  placeMs: 200,
  bootMs: 300,
  listLagMs: 250,
  newbornMs: 0,
  terminatedMs: 0,
  restartMs: 500,
  killGraceMs: 1_500,
};

/** Requests a minute, an hour and a day, as the real headers name them. */
export interface Quotas {
  readonly minute: number;
  readonly hour: number;
  readonly day: number;
}

/** `known-only`: a digest of actions/actions-runner must be one the local registry knows. */
export type ImagePolicy = "accept" | "refuse-digest" | "known-only";

export interface LocalRunPodOptions {
  /** 0 or absent: any free port. */
  readonly port?: number;
  readonly registryPort?: number;
  readonly apiKey: string;
  readonly catalog?: readonly GpuOffer[];
  /** Every answer waits this long. */
  readonly latencyMs?: number;
  /** Pods get a folder each in here. */
  readonly stateDir: string;
  /** The image's folder, as `buildImage` makes it. */
  readonly imageDir: string;
  /** Same seed, same ids and data centres. */
  readonly seed?: number;
  /** The server's clock; timers wake by the real one and then look at this one. */
  readonly now?: () => number;
  readonly timing?: Partial<PodTiming>;
  readonly quotas?: Quotas;
  /** USD; a create needs one hour's price in it. */
  readonly balance?: number;
  /** Lists carry `pagination` only when true (default): older servers sent none. */
  readonly pagination?: boolean;
}

/** One pod's bill. `releasedAtMs` null: it is still being paid for, and `microDollars` is what it cost so far. */
export interface Bill {
  readonly podId: string;
  readonly name: string;
  readonly gpuId: string;
  readonly rentedAtMs: number;
  readonly releasedAtMs: number | null;
  /** USD per hour for the whole pod. */
  readonly ratePerHour: number;
  readonly microDollars: number;
}

/** A request as the books keep it: no header, no body, no query value. */
export interface RequestEntry {
  readonly atMs: number;
  readonly method: string;
  /** The route, with `{id}` in the place of an id. */
  readonly route: string;
  readonly podId: string | null;
  /** Null: no answer was sent. */
  readonly status: number | null;
  /** Of a create: what was asked for. */
  readonly create: { readonly name: string; readonly gpuId: string; readonly bytes: number } | null;
}

/** A pod as the books keep it; of its environment only the names and the ownership tags. */
export interface PodEntry {
  readonly id: string;
  readonly name: string;
  readonly gpuId: string;
  readonly status: PodStatus;
  readonly foreign: boolean;
  readonly createdAtMs: number;
  /** When it was really gone. */
  readonly releasedAtMs: number | null;
  readonly containerStarts: number;
  /** The process group of the running container, null when none runs. */
  readonly processGroup: number | null;
  readonly envNames: readonly string[];
  readonly tags: Readonly<Record<string, string>>;
}

export interface LocalRunPod {
  /** Base of REST v2, with `/v2` at its end. */
  readonly url: string;
  readonly graphqlUrl: string;
  /** Base of the image registry; its routes are below `/v2/` of it. */
  readonly registryUrl: string;
  /** The registry's own controls: publish a release, remove a tag, be down. */
  readonly registry: LocalRegistry;
  readonly faults: FaultControl;
  setStock(gpuId: string, level: StockLevel): void;
  /** USD per hour for one GPU, in the secure cloud; the community price follows in proportion. */
  setPrice(gpuId: string, usdPerHour: number): void;
  setBalance(usd: number): void;
  balance(): number;
  setImagePolicy(policy: ImagePolicy): void;
  /** Applies to the next create that succeeds (and, when given, names this pod or GPU). */
  nextPod(script: PodScript, which?: { readonly name?: string | RegExp; readonly gpuId?: string }): void;
  /** Utilisation in percent as `runtime` shows it. */
  setUtilization(podId: string, percent: number): void;
  /** Changes what `nvidia-smi` on a pod prints from now on. */
  setGpuReport(podId: string, report: Partial<GpuReport>): void;
  /** Somebody else's pod in the same account: RUNNING and billed, without a process. Gives its id. */
  rentForeignPod(pod: {
    readonly name: string;
    readonly env?: Readonly<Record<string, string>>;
    readonly gpuId?: string;
    readonly createdAtMs?: number;
  }): string;
  /** Ends a pod's container from inside, as a crash would. */
  crashContainer(podId: string): void;
  bills(): readonly Bill[];
  requests(): readonly RequestEntry[];
  pods(): readonly PodEntry[];
  /** The last lines a container wrote. */
  logs(podId: string): readonly string[];
  /** Ends every pod's processes, then the servers. */
  close(): Promise<void>;
}
