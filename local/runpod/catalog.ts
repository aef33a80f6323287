/**
 * The GPUs for rent: default offers, and the catalog that remembers stock and prices while the server runs.
 *
 * Ids are RunPod's own (free text, runpod-facts.md section 6.18); the default holds every GPU type a new deployment
 * reviews, one above the price ceiling and one of another maker. Prices are plausible, not RunPod's.
 */
import type { Cloud, GpuOffer, StockLevel } from "./types.ts";

type Row = readonly [id: string, memoryGb: number, securePrice: number, cudaVersions?: readonly string[]];

const rows: readonly Row[] = [
  ["NVIDIA RTX A2000", 6, 0.12],
  ["NVIDIA GeForce RTX 3070", 8, 0.13],
  ["NVIDIA GeForce RTX 3080", 10, 0.17],
  ["NVIDIA GeForce RTX 3080 Ti", 12, 0.18],
  ["Tesla V100-PCIE-16GB", 16, 0.19, ["12.4", "12.6", "12.8"]],
  ["NVIDIA RTX A4000", 16, 0.25],
  ["NVIDIA RTX 2000 Ada Generation", 16, 0.24],
  ["NVIDIA RTX A4500", 20, 0.26],
  ["NVIDIA RTX A5000", 24, 0.27],
  ["NVIDIA A40", 48, 0.4],
  ["NVIDIA L4", 24, 0.43],
  ["NVIDIA RTX A6000", 48, 0.49],
  ["NVIDIA GeForce RTX 4090", 24, 0.69],
  ["NVIDIA RTX 6000 Ada Generation", 48, 0.77],
  ["NVIDIA L40", 48, 0.99],
  ["NVIDIA L40S", 48, 0.86],
  ["NVIDIA GeForce RTX 5090", 32, 0.94, ["12.8", "12.9", "13.0"]],
  ["NVIDIA A100 80GB PCIe", 80, 1.39],
  ["NVIDIA A100-SXM4-80GB", 80, 1.49],
  ["NVIDIA H100 80GB HBM3", 80, 2.99],
  ["AMD Instinct MI300X OAM", 192, 1.99, []],
];

export const defaultCatalog: readonly GpuOffer[] = rows.map(
  ([id, memoryGb, securePrice, cudaVersions = ["12.4", "12.6", "12.8", "13.0"]]) => ({
    id,
    name: id.replace(/^(NVIDIA GeForce |NVIDIA |AMD Instinct )/, ""),
    manufacturer: id.startsWith("AMD") ? "AMD" : "NVIDIA",
    memoryGb,
    securePrice,
    communityPrice: Math.round(securePrice * 70) / 100,
    maxCount: 8,
    stock: "HIGH",
    cudaVersions,
  }),
);

export const dataCenters: readonly { readonly id: string; readonly name: string }[] = [
  { id: "US-KS-2", name: "US Kansas 2" },
  { id: "EU-RO-1", name: "EU Romania 1" },
  { id: "CA-MTL-3", name: "CA Montreal 3" },
];

export class Catalog {
  readonly #offers = new Map<string, GpuOffer>();

  constructor(offers: readonly GpuOffer[]) {
    for (const offer of offers) this.#offers.set(offer.id, offer);
  }

  all(): readonly GpuOffer[] {
    return [...this.#offers.values()];
  }

  find(gpuId: string): GpuOffer | null {
    return this.#offers.get(gpuId) ?? null;
  }

  setStock(gpuId: string, stock: StockLevel): void {
    this.#change(gpuId, { stock });
  }

  setPrice(gpuId: string, securePrice: number): void {
    this.#change(gpuId, { securePrice, communityPrice: Math.round(securePrice * 70) / 100 });
  }

  /** USD per hour for one GPU. */
  price(offer: GpuOffer, cloud: Cloud): number {
    return cloud === "SECURE" ? offer.securePrice : offer.communityPrice;
  }

  #change(gpuId: string, change: Partial<GpuOffer>): void {
    const offer = this.#offers.get(gpuId);
    if (!offer) throw new Error(`the local catalog has no GPU ${JSON.stringify(gpuId)}`);
    this.#offers.set(gpuId, { ...offer, ...change });
  }
}

/** `GET /v2/catalog/gpus`: one row, with stock only when it was asked for. */
export function catalogRow(offer: GpuOffer, withAvailability: boolean): Record<string, unknown> {
  const available = offer.stock !== "NONE";
  return {
    id: offer.id,
    name: offer.name,
    pool: null,
    manufacturer: offer.manufacturer,
    memory: offer.memoryGb,
    secure: true,
    community: true,
    price: { secure: offer.securePrice, community: offer.communityPrice },
    maxCount: { secure: offer.maxCount, community: offer.maxCount },
    ...(withAvailability
      ? {
          availability: offer.stock,
          dataCenters: available ? dataCenters.map((center) => ({ ...center, availability: offer.stock })) : [],
          cudaVersions: offer.cudaVersions.map((version) => ({ version, available })),
        }
      : {}),
  };
}
