/**
 * What RunPod offers now, read once for all gates of the deployment: its published contract, and prices with stock.
 *
 * Without the contract nothing may be bought, so its failure is the whole answer's. Prices have a second source (the public
 * query) and a third (the reviewed order): with neither, `offers` is null.
 */
import type { Clock, Millis } from "../../shared/ports.ts";
import type { Offer } from "../../shared/runpod/offers.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import type { AccountAnswer } from "../gate/ports.ts";
import { Aged } from "./aged.ts";

export interface Market {
  /** The OpenAPI document as JSON text: it crosses between objects, and text does that cheaply. */
  readonly contract: string;
  readonly offers: readonly Offer[] | null;
  /** Only the catalog names every GPU type that exists. */
  readonly offersFrom: "catalog" | "public" | null;
}

export class MarketReader {
  readonly #runpod: Pick<RunPodClient, "openApiDocument" | "catalogGpus" | "publicPrices">;
  readonly #contracts: Aged<string>;
  readonly #catalogs: Aged<readonly Offer[]>;
  readonly #prices: Aged<readonly Offer[]>;

  constructor(runpod: Pick<RunPodClient, "openApiDocument" | "catalogGpus" | "publicPrices">, clock: Clock) {
    this.#runpod = runpod;
    this.#contracts = new Aged(clock, 1);
    // Stock is told for pods of so many GPUs; a pod has four at most.
    this.#catalogs = new Aged(clock, 4);
    this.#prices = new Aged(clock, 1);
  }

  async read(maxAgeMs: Millis, gpuCount: number): Promise<AccountAnswer<Market>> {
    const [contract, catalog] = await Promise.all([
      this.#contracts.get("", maxAgeMs, async () => {
        const document = await this.#runpod.openApiDocument();
        return document.ok
          ? { ok: true, value: JSON.stringify(document.value) }
          : { ok: false, why: `RunPod's contract: ${document.error.reason}` };
      }),
      this.#catalogs.get(String(gpuCount), maxAgeMs, async () => {
        const offers = await this.#runpod.catalogGpus({ gpuCount });
        return offers.ok ? offers : { ok: false, why: `RunPod's catalog: ${offers.error.reason}` };
      }),
    ]);
    if (!contract.ok) return contract;
    if (catalog.ok)
      return { ok: true, value: { contract: contract.value, offers: catalog.value, offersFrom: "catalog" } };
    const prices = await this.#prices.get("", maxAgeMs, async () => {
      const offers = await this.#runpod.publicPrices();
      return offers.ok ? offers : { ok: false, why: `RunPod's prices: ${offers.error.reason}` };
    });
    const offers = prices.ok ? prices.value : null;
    return { ok: true, value: { contract: contract.value, offers, offersFrom: offers === null ? null : "public" } };
  }
}
