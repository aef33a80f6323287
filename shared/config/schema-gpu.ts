/** What may be rented, at which price, and how the runner on it registers. */
import * as z from "zod";
import { DEFAULT_TIERS, MIN_VRAM_GB, PRICE_CEILING_USD_PER_HOUR } from "../runpod/default-tiers.ts";
import { idText, oneLine } from "./schema-parts.ts";

const REVIEWED_TIERS = DEFAULT_TIERS.map(({ name, gpuIds }) => ({ name, gpu_ids: [...gpuIds] }));

const price = z.number().positive().max(PRICE_CEILING_USD_PER_HOUR);

/** Anything the pod fetches comes over TLS; plain http only from the machine itself, for local worlds. */
const fetchUrl = z
  .string()
  .max(1000)
  .regex(
    /^(?:https:\/\/[^\s/?#@]+|http:\/\/(?:127\.0\.0\.1|localhost)(?::\d{1,5})?)\/[^\s]*$/,
    "must be an https:// address (http:// only on 127.0.0.1 or localhost)",
  );

export const gpuSchema = z
  .strictObject({
    tiers: z
      .array(
        z.strictObject({
          name: z
            .string()
            .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, "must be lower case letters, digits and dashes")
            .describe("Name shown in the check and in the ledger."),
          gpu_ids: z
            .array(z.string().min(1).max(100))
            .min(1)
            .max(30)
            .describe("RunPod GPU ids, exactly as the catalog spells them, best first."),
          max_usd_per_hour: price
            .nullable()
            .default(null)
            .describe("Price above which this tier's GPUs are not taken; null: the ceiling."),
        }),
      )
      .min(1)
      .max(10)
      .prefault(REVIEWED_TIERS)
      .describe("The only GPUs that may be rented, in order."),
    price_ceiling_usd_per_hour: price
      .default(PRICE_CEILING_USD_PER_HOUR)
      .describe("Price per hour of the whole pod above which nothing is rented; 1.60 at most."),
    max_priced_candidates: z
      .int()
      .min(0)
      .max(20)
      .default(3)
      .describe("How many candidates by live price are tried before the tiers in order; 0: tiers only."),
    max_attempts: z.int().min(1).max(10).default(6).describe("Pods bought for one request at most."),
    max_startup_failures: z
      .int()
      .min(0)
      .max(10)
      .default(2)
      .describe("Pods in a row whose runner never registered that end a request; 0: no such end."),
    min_vram_gb: z.int().min(MIN_VRAM_GB).max(80).default(MIN_VRAM_GB).describe("Least memory of the GPU in GB."),
    count: z
      .literal(1, {
        error: "must be 1: a pod proves one GPU before it runs anything, and one with more is given back at once",
      })
      .default(1)
      .describe("GPUs in the pod: one, which is what a pod proves. Anything else is refused."),
    cuda_versions: z
      .array(z.string().regex(/^\d{1,2}\.\d{1,2}$/, "must be major.minor in quotes"))
      .min(1)
      .max(20)
      .default(["12.6", "12.7", "12.8", "12.9", "13.0"])
      .describe("CUDA versions of the host's driver that are acceptable; 12.6 is the floor."),
    cloud: z
      .enum(["secure"])
      .default("secure")
      .describe("RunPod's secure machines; community machines are never rented."),
    data_centers: z.array(oneLine(30)).max(50).default([]).describe("RunPod data centres to choose from; empty: any."),
    disk_gb: z.int().min(5).max(500).default(40).describe("Container disk in GB."),
    image: z
      .string()
      .max(300)
      .regex(
        /^[a-z0-9.-]+(?::\d{1,5})?(?:\/[a-z0-9._-]+)+(?::[A-Za-z0-9_][A-Za-z0-9._-]*|@sha256:[0-9a-f]{64})$/,
        "must be registry/name:tag or registry/name@sha256:...",
      )
      .default("ghcr.io/actions/actions-runner:latest")
      .describe("Runner image; a tag is resolved to a digest before anything is rented."),
    nvrtc: z
      .partialRecord(
        z.enum(["12.6", "12.8"]),
        z.strictObject({
          url: fetchUrl.describe("Where the pod fetches this NVRTC."),
          sha256: z
            .string()
            .regex(/^[0-9a-f]{64}$/, "must be 64 hex digits")
            .describe("SHA-256 of the file."),
        }),
      )
      .default({})
      .describe(
        "NVRTC with which a pod compiles and runs a kernel before it registers: 12.8 for drivers of CUDA 12.8 and newer, 12.6 for older ones. All that `cuda_versions` can reach, or none: empty, no kernel is run.",
      ),
  })
  .prefault({})
  .describe("The rented GPU.");

export const runnerSchema = z
  .strictObject({
    scope: z
      .enum(["repository", "organization"])
      .default("repository")
      .describe("Where runners register. `organization` allows a group restricted to the trusted workflow."),
    group_id: idText.default("1").describe("Runner group id, quoted; 1 is the default group."),
    release_warning_days: z
      .int()
      .min(1)
      .max(29)
      .default(14)
      .describe("Days behind the newest runner release before a warning; GitHub refuses at about 30."),
  })
  .prefault({})
  .describe("The just-in-time runner on the pod.");
