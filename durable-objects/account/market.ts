/**
 * What RunPod offers now, read once for all gates of the deployment: its published contract, prices with stock, and whether
 * our key may give back what it rents.
 *
 * Without the contract nothing may be bought, so its failure is the whole answer's. Prices have a second source (the public
 * query) and a third (the reviewed order): with neither, `offers` is null.
 */
import type { Clock, Millis } from "../../shared/ports.ts";
import type { Offer } from "../../shared/runpod/offers.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import { mayDelete } from "../../shared/runpod/may-delete.ts";
import type { AccountAnswer } from "../gate/ports.ts";
import { Aged } from "./aged.ts";

export interface Market {
  /** The OpenAPI document as JSON text: it crosses between objects, and text does that cheaply. */
  readonly contract: string;
  readonly offers: readonly Offer[] | null;
  /** Only the catalog names every GPU type that exists. */
  readonly offersFrom: "catalog" | "public" | null;
  /** Why this key may buy nothing, in a sentence; null: it was seen to be allowed to delete pods. */
  readonly keyRefused: string | null;
}

type MarketClient = Pick<RunPodClient, "openApiDocument" | "catalogGpus" | "publicPrices" | "deletePod">;

/** So long a key that was seen to be allowed to delete counts as allowed. */
const PROVEN_MS = 3_600_000;

export class MarketReader {
  readonly #runpod: MarketClient;
  readonly #contracts: Aged<string>;
  readonly #catalogs: Aged<readonly Offer[]>;
  readonly #prices: Aged<readonly Offer[]>;
  readonly #proofs: Aged<true>;
  #refused: string | null = null;

  constructor(runpod: MarketClient, clock: Clock) {
    this.#runpod = runpod;
    this.#contracts = new Aged(clock, 1);
    this.#catalogs = new Aged(clock, 1);
    this.#prices = new Aged(clock, 1);
    this.#proofs = new Aged(clock, 1);
  }

  async read(maxAgeMs: Millis): Promise<AccountAnswer<Market>> {
    const [contract, catalog, proof] = await Promise.all([
      this.#contracts.get("", maxAgeMs, async () => {
        const document = await this.#runpod.openApiDocument();
        return document.ok
          ? { ok: true, value: JSON.stringify(document.value) }
          : { ok: false, why: `RunPod's contract: ${document.error.reason}` };
      }),
      this.#catalogs.get("", maxAgeMs, async () => {
        const offers = await this.#runpod.catalogGpus();
        return offers.ok ? offers : { ok: false, why: `RunPod's catalog: ${offers.error.reason}` };
      }),
      this.#proofs.get("", PROVEN_MS, () => this.#prove()),
    ]);
    if (!contract.ok) return contract;
    const keyRefused = proof.ok ? null : this.#refused;
    if (!proof.ok && keyRefused === null) return proof;
    const common = { contract: contract.value, keyRefused };
    if (catalog.ok) return { ok: true, value: { ...common, offers: catalog.value, offersFrom: "catalog" } };
    const prices = await this.#prices.get("", maxAgeMs, async () => {
      const offers = await this.#runpod.publicPrices();
      return offers.ok ? offers : { ok: false, why: `RunPod's prices: ${offers.error.reason}` };
    });
    const offers = prices.ok ? prices.value : null;
    return { ok: true, value: { ...common, offers, offersFrom: offers === null ? null : "public" } };
  }

  async #prove(): Promise<AccountAnswer<true>> {
    const may = await mayDelete(this.#runpod);
    if (may.kind === "yes") {
      this.#refused = null;
      return { ok: true, value: true };
    }
    const why = `RunPod did not show that this deployment's key may delete pods (${may.reason})`;
    this.#refused = may.kind === "refused" ? `${why}: nothing is rented that could not be given back.` : null;
    return { ok: false, why };
  }
}
