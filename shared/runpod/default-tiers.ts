/**
 * The reviewed GPU types a new deployment starts with, cheapest kind first. A repository's configuration may name others.
 *
 * Only what stands here (or in the configuration) is ever bought. The ids are RunPod's own, spelled exactly: RunPod answers
 * a wrong id with its words for "sold out". The live catalog is checked against them before money is spent (contract.ts).
 * Prices move; they were last looked at on 2026-07-15, when the A100 SXM, the dearest type here, cost USD 1.49 an hour.
 */
import type { Tier } from "./candidates.ts";

export const DEFAULT_TIERS: readonly Tier[] = [
  {
    name: "cost-preferred",
    gpuIds: [
      "NVIDIA RTX A2000",
      "NVIDIA GeForce RTX 3070",
      "NVIDIA GeForce RTX 3080",
      "NVIDIA GeForce RTX 3080 Ti",
      "Tesla V100-PCIE-16GB",
      "NVIDIA RTX A4000",
      "NVIDIA RTX 2000 Ada Generation",
      "NVIDIA RTX A4500",
      "NVIDIA RTX A5000",
      "NVIDIA A40",
      "NVIDIA L4",
      "NVIDIA RTX A6000",
      "NVIDIA GeForce RTX 4090",
    ],
  },
  {
    name: "premium",
    gpuIds: ["NVIDIA RTX 6000 Ada Generation", "NVIDIA L40", "NVIDIA L40S", "NVIDIA GeForce RTX 5090"],
  },
  {
    name: "a100",
    gpuIds: ["NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"],
    reviewedUsdPerHour: { "NVIDIA A100-SXM4-80GB": 1.49 },
  },
];

/** The day a person last looked at ids and prices above. */
export const TIERS_REVIEWED_ON = "2026-07-15";

/** No candidate above this price is ever tried, whatever the market says. USD per hour for one GPU. */
export const PRICE_CEILING_USD_PER_HOUR = 1.6;

export const MIN_VRAM_GB = 8;

/** The lowest CUDA version the driver must offer. */
export const MIN_CUDA_VERSION = "12.6";
