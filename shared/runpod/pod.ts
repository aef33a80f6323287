/**
 * A pod as RunPod describes it, reduced at the boundary to what the gate may know.
 *
 * The answer is read leniently: an id makes a pod, every other field that does not read becomes null and is listed in
 * `unreadable`. A pod we cannot fully read still costs money, so it must not vanish from a list. `env`, which RunPod returns
 * in clear, is cut down to our own tags here (see tags.ts); no other value of it leaves this file.
 */
import * as z from "zod";
import type { Millis } from "../ports.ts";
import { parseTimestamp } from "../time.ts";
import { GPU_GATE_TAGS, tagsFromEnv } from "./tags.ts";
import type { TagNames } from "./tags.ts";

/**
 * REST v2's six states, and the four only older interfaces used. `UNKNOWN` is a word we have not met: neither alive nor
 * gone for sure.
 */
export const POD_STATUSES = [
  "PROVISIONING",
  "STARTING",
  "RUNNING",
  "EXITED",
  "ERROR",
  "TERMINATED",
  "TERMINATING",
  "STOPPED",
  "DEAD",
] as const;

export type PodStatus = (typeof POD_STATUSES)[number] | "UNKNOWN";

export interface Pod {
  readonly id: string;
  readonly name: string;
  readonly status: PodStatus;
  /** The GPU type RunPod says it assigned. In v2 it may merely echo the request; the pod's own proof decides. */
  readonly gpuId: string | null;
  readonly gpuCount: number | null;
  readonly cloud: "SECURE" | "COMMUNITY" | null;
  /** Null until the pod is placed. */
  readonly dataCenterId: string | null;
  /** `ssh.proxy` is set as soon as a machine is assigned (v2 documentation), whether or not SSH is used. */
  readonly sshAssigned: boolean;
  /** USD per hour as billed for the whole pod; RunPod reports 0 for a stopped one. */
  readonly costPerHour: number | null;
  readonly createdAtMs: Millis | null;
  readonly startedAtMs: Millis | null;
  /** True: live figures are there. False: RunPod says there is no runtime. Null: an empty or missing block, which says nothing. */
  readonly runtimeUp: boolean | null;
  /** Utilisation in per cent, one entry per GPU; null when RunPod gives none. */
  readonly gpuUtilization: readonly number[] | null;
  readonly cpuUtilization: number | null;
  readonly cudaVersion: string | null;
  readonly tags: Readonly<Record<string, string>>;
  /** Names of fields that were there and could not be read. */
  readonly unreadable: readonly string[];
}

/** A pod that is not there any more, for absence proofs. Every other state, the unknown one included, counts as alive. */
export function podIsGone(pod: Pick<Pod, "status">): boolean {
  return pod.status === "TERMINATED";
}

/** Any JSON value as an object, tolerant: anything else reads as empty. */
const looseObject = z.record(z.string(), z.unknown()).catch({});

class FieldReader {
  readonly unreadable: string[] = [];
  readonly #source: Readonly<Record<string, unknown>>;

  constructor(source: Readonly<Record<string, unknown>>) {
    this.#source = source;
  }

  /** The field by its first present name, parsed; null when absent or null; noted when it does not parse. */
  read<T>(schema: z.ZodType<T>, ...names: readonly string[]): T | null {
    for (const name of names) {
      const value = this.#source[name];
      if (value === undefined || value === null) continue;
      const parsed = schema.safeParse(value);
      if (parsed.success) return parsed.data;
      this.unreadable.push(name);
      return null;
    }
    return null;
  }
}

/** v1's specification says number and shows a string; both were sent. */
const price = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d+(?:\.\d+)?$/)
      .transform(Number),
  ])
  .pipe(z.number().nonnegative());
const text = z.string().max(500);
const count = z.number().int().nonnegative();
const cloudWord = z.enum(["SECURE", "COMMUNITY"]);
// Made once: zod compiles a schema at its first use, which costs more than reading a pod.
const used = z.object({ util: z.number() });
const usedEach = z.array(used);
const idText = z.string().min(1).max(200);
const instant = z.unknown().transform((value, context) => {
  const at = parseTimestamp(value);
  if (at === null) context.addIssue({ code: "custom", message: "not a time" });
  // Go's zero time (year 1) means "never", and so does the epoch.
  return at === null || at <= 0 ? null : at;
});

export type ParsedPod = { readonly ok: true; readonly pod: Pod } | { readonly ok: false; readonly what: string };

/** Reads a REST v2 pod. Fails only when there is no usable id. */
export function parsePod(value: unknown, names: TagNames = GPU_GATE_TAGS): ParsedPod {
  const source = looseObject.parse(value);
  const id = readId(source);
  if (id === null) return { ok: false, what: "a pod without a readable id" };

  const fields = new FieldReader(source);
  const gpu = looseObject.parse(source["gpu"]);
  const ssh = looseObject.parse(source["ssh"]);
  const pod = {
    id,
    name: fields.read(text, "name") ?? "",
    status: statusWord(fields.read(text, "status")),
    gpuId: new FieldReader(gpu).read(text, "id"),
    gpuCount: new FieldReader(gpu).read(count, "count"),
    cloud: fields.read(cloudWord, "cloud"),
    dataCenterId: fields.read(text, "dataCenterId"),
    sshAssigned: typeof ssh["proxy"] === "object" && ssh["proxy"] !== null,
    costPerHour: fields.read(price, "cost"),
    createdAtMs: fields.read(instant, "createdAt"),
    startedAtMs: fields.read(instant, "startedAt"),
    ...readRuntime(source["runtime"]),
    cudaVersion: fields.read(text, "cudaVersion"),
    tags: tagsFromEnv(source["env"], names),
  };
  return { ok: true, pod: { ...pod, unreadable: fields.unreadable } };
}

/**
 * Reads a pod in the retired v1 shape (`desiredStatus`, `costPerHr`, `machine`), as old records hold it. A savings-plan
 * price counts when it is positive; the id of the GPU is `machine.gpuTypeId`, else `machine.gpuType.id`, else `gpu.id`.
 */
export function parseLegacyPod(value: unknown, names: TagNames = GPU_GATE_TAGS): ParsedPod {
  const source = looseObject.parse(value);
  const id = readId(source);
  if (id === null) return { ok: false, what: "a pod without a readable id" };

  const fields = new FieldReader(source);
  const machine = looseObject.parse(source["machine"]);
  const gpu = looseObject.parse(source["gpu"]);
  const adjusted = fields.read(price, "adjustedCostPerHr");
  const secure = machine["secureCloud"];
  const pod = {
    id,
    name: fields.read(text, "name") ?? "",
    status: statusWord(fields.read(text, "desiredStatus", "status")),
    gpuId: legacyGpuId(machine, gpu),
    gpuCount: fields.read(count, "gpuCount") ?? new FieldReader(gpu).read(count, "count"),
    cloud: typeof secure === "boolean" ? (secure ? ("SECURE" as const) : ("COMMUNITY" as const)) : null,
    dataCenterId: new FieldReader(machine).read(text, "dataCenterId"),
    sshAssigned: fields.read(text, "machineId") !== null,
    costPerHour: adjusted !== null && adjusted > 0 ? adjusted : fields.read(price, "costPerHr"),
    createdAtMs: fields.read(instant, "createdAt"),
    startedAtMs: fields.read(instant, "lastStartedAt"),
    ...readRuntime(source["runtime"]),
    cudaVersion: null,
    tags: tagsFromEnv(source["env"], names),
  };
  return { ok: true, pod: { ...pod, unreadable: fields.unreadable } };
}

function readId(source: Readonly<Record<string, unknown>>): string | null {
  const parsed = idText.safeParse(source["id"]);
  return parsed.success ? parsed.data : null;
}

function statusWord(word: string | null): PodStatus {
  return POD_STATUSES.find((known) => known === word) ?? "UNKNOWN";
}

/** An empty string is an answer too: a machine whose GPU is named "" is not one without a name. */
function legacyGpuId(
  machine: Readonly<Record<string, unknown>>,
  gpu: Readonly<Record<string, unknown>>,
): string | null {
  for (const candidate of [machine["gpuTypeId"], looseObject.parse(machine["gpuType"])["id"], gpu["id"]]) {
    if (typeof candidate === "string") return candidate;
  }
  return null;
}

function readRuntime(value: unknown): Pick<Pod, "runtimeUp" | "gpuUtilization" | "cpuUtilization"> {
  if (value === undefined) return { runtimeUp: null, gpuUtilization: null, cpuUtilization: null };
  if (value === null) return { runtimeUp: false, gpuUtilization: null, cpuUtilization: null };
  const runtime = looseObject.parse(value);
  const gpus = usedEach.safeParse(runtime["gpus"]);
  const cpu = used.safeParse(runtime["cpu"]);
  return {
    // The documented create answer carries `{}` while the pod is still being placed.
    runtimeUp: Object.keys(runtime).length > 0 ? true : null,
    gpuUtilization: gpus.success && gpus.data.length > 0 ? gpus.data.map((one) => one.util) : null,
    cpuUtilization: cpu.success ? cpu.data.util : null,
  };
}
