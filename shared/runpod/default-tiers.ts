/**
 * The one list of what may be rented: the reviewed GPU types a new deployment starts with, cheapest kind first, and the
 * bounds that no configuration moves. A repository's configuration may name other types within them.
 *
 * Only what stands here (or in the configuration) is ever bought. The ids are RunPod's own, spelled exactly: RunPod answers
 * a wrong id with its words for "sold out". The live catalog is checked against them before money is spent (contract.ts).
 * Prices move; they were last looked at on 2026-07-15, when the A100 SXM, the dearest type here, cost USD 1.49 an hour.
 */
import type { Tier } from "./candidates.ts";

export const DEFAULT_TIERS: readonly Tier[] = [
  {
    name: "cost-preferred",
    gpuIds: ["NVIDIA RTX A4000", "NVIDIA RTX 4000 Ada Generation", "NVIDIA RTX A5000", "NVIDIA L4", "NVIDIA A40"],
  },
  { name: "premium", gpuIds: ["NVIDIA GeForce RTX 4090", "NVIDIA RTX A6000", "NVIDIA L40S"] },
  {
    name: "a100",
    gpuIds: ["NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"],
    reviewedUsdPerHour: { "NVIDIA A100-SXM4-80GB": 1.49 },
  },
];

/** The day a person last looked at ids and prices above. */
export const TIERS_REVIEWED_ON = "2026-07-15";

/**
 * No candidate above this price is ever tried, whatever the market says, and no repository may raise it: just above the
 * dearest reviewed type. USD per hour for the whole pod.
 */
export const PRICE_CEILING_USD_PER_HOUR = 1.6;

/** RunPod bills a running pod's container disk at USD 0.10 per GB and month, beside its GPU. */
const DISK_USD_PER_GB_MONTH = 0.1;
const HOURS_PER_MONTH = 730;

/** What a container disk of so many GB costs, USD per hour: USD 0.0055 for 40 GB. */
export function diskUsdPerHour(diskGb: number): number {
  return (diskGb * DISK_USD_PER_GB_MONTH) / HOURS_PER_MONTH;
}

export const MIN_VRAM_GB = 8;

/** The lowest CUDA version the driver must offer. */
export const MIN_CUDA_VERSION = "12.6";

/**
 * Hopper, and everything dearer that RunPod lists next to it: `NVIDIA H100 80GB HBM3`, `NVIDIA H200`, `NVIDIA GH200 480GB`,
 * `NVIDIA B200`, `AMD Instinct MI300X OAM`. The model must begin a word, so `RTX A4000` or `40GB` never match.
 */
const H100_CLASS = /(?<![A-Z0-9])(?:H\d{2,3}|GH\d{3}|G?B\d{3}|MI3\d{2})(?!\d)/i;

export function isH100Class(gpuId: string): boolean {
  return H100_CLASS.test(gpuId);
}
