/**
 * The plan of a walk: which GPU types are tried, in which order, and why the others are not.
 *
 * Pure: reviewed tiers and the market's offers go in, ordered candidates come out. Inside the reviewed boundary the live
 * price decides; without live prices the reviewed order stands alone. Nothing outside the tiers, above the ceiling or of
 * the H100 class is ever a candidate, however cheap it looks.
 */
import { isH100Class } from "./default-tiers.ts";
import type { Offer } from "./offers.ts";

export interface Tier {
  readonly name: string;
  /** RunPod's GPU type ids in the order of preference. */
  readonly gpuIds: readonly string[];
  /** What a person saw, USD per hour; the ceiling is held against it when the configuration loads. */
  readonly reviewedUsdPerHour?: Readonly<Record<string, number>>;
  /** A limit of this tier's own, below the ceiling; USD per hour for the whole pod. */
  readonly maxUsdPerHour?: number | null;
}

export interface Candidate {
  /** For reports: `price-0.17-NVIDIA RTX A4000` when ordered by price, else the tier (and id). */
  readonly name: string;
  /** A pod with any other GPU id is rejected. Compared exactly: RunPod has ids that differ by one space. */
  readonly acceptedIds: readonly string[];
  /** USD per hour for the whole pod; null when the market did not say. */
  readonly price: number | null;
  readonly tier: string;
}

export type LeftOutWhy = "h100-class" | "above-ceiling" | "vram-below-minimum" | "not-on-secure-cloud";

export interface LeftOut {
  readonly gpuId: string;
  readonly tier: string;
  readonly why: LeftOutWhy;
  readonly price: number | null;
}

export interface Plan {
  readonly candidates: readonly Candidate[];
  /** Reviewed types that are not tried, with the reason. */
  readonly leftOut: readonly LeftOut[];
  /** False when the market gave no usable answer and the reviewed order stands alone. */
  readonly pricingUsable: boolean;
  /**
   * What one hour of the dearest candidate's whole pod costs, disk included, for the reservation of money. A candidate
   * without a price counts as dear as it may be: its tier's limit or the ceiling (with neither, as the dearest known price).
   */
  readonly highestUsdPerHour: number;
}

export interface PlanInput {
  readonly tiers: readonly Tier[];
  /** Null when no pricing answer was usable. */
  readonly offers: readonly Offer[] | null;
  readonly minVramGb: number;
  /** At most this many candidates are ordered by price; the rest keeps its reviewed place. Infinity: all. */
  readonly maxPriceCandidates: number;
  /** USD per hour for the whole pod; null: no ceiling (only for replaying the behaviour of others). */
  readonly ceilingUsdPerHour: number | null;
  /**
   * `per-id`: one candidate per GPU type, none twice (REST v2 takes one type per create). `per-tier`: the priced types, then
   * each tier as one candidate with all its ids, types of the priced prefix repeated.
   */
  readonly shape: "per-id" | "per-tier";
  /** USD per hour that RunPod asks for the container's disk beside the GPU; 0 unless told otherwise. */
  readonly diskUsdPerHour?: number;
  /** Words, in any letter case, by which the market says it has none. */
  readonly emptyStockWords?: readonly string[];
}

/** `NONE` in the catalog, `None` in GraphQL; RunPod's own tool also handles `Out`. */
export const EMPTY_STOCK_WORDS: readonly string[] = ["none", "out", "out of stock"];

interface Reviewed {
  readonly gpuId: string;
  readonly tier: Tier;
}

interface Priced extends Reviewed {
  readonly price: number;
}

/** Makes the plan. Deterministic: the same tiers and offers give the same order. */
export function planCandidates(input: PlanInput): Plan {
  const reviewed = reviewedTypes(input.tiers);
  const priced = pricedTypes(input, reviewed);

  if (input.shape === "per-tier") {
    const tierCandidates = input.tiers.map((tier): Candidate => ({
      name: tier.name,
      acceptedIds: tier.gpuIds,
      price: null,
      tier: tier.name,
    }));
    return finish(input, [...priced.map(pricedCandidate), ...tierCandidates], []);
  }

  const leftOut: LeftOut[] = [];
  const seen = new Set<string>();
  const candidates: Candidate[] = [];
  for (const type of priced) {
    if (seen.has(type.gpuId)) continue;
    seen.add(type.gpuId);
    candidates.push(pricedCandidate(type));
  }
  const offerOf = new Map((input.offers ?? []).map((offer) => [offer.gpuId, offer]));
  for (const type of reviewed) {
    if (seen.has(type.gpuId)) continue;
    seen.add(type.gpuId);
    const offer = offerOf.get(type.gpuId) ?? null;
    const price = priceOf(offer);
    const why = refusal(type, offer, input);
    const tier = type.tier.name;
    if (why === null) candidates.push({ name: `${tier}-${type.gpuId}`, acceptedIds: [type.gpuId], price, tier });
    else leftOut.push({ gpuId: type.gpuId, tier, why, price });
  }
  return finish(input, candidates, leftOut);
}

function reviewedTypes(tiers: readonly Tier[]): readonly Reviewed[] {
  return tiers.flatMap((tier) => tier.gpuIds.map((gpuId) => ({ gpuId, tier })));
}

/** In stock, allowed, with a price: cheapest first, equal prices in reviewed order, cut to the limit. */
function pricedTypes(input: PlanInput, reviewed: readonly Reviewed[]): readonly Priced[] {
  const emptyWords = input.emptyStockWords ?? EMPTY_STOCK_WORDS;
  const placeOf = (gpuId: string): number => reviewed.findIndex((type) => type.gpuId === gpuId);
  const priced = (input.offers ?? []).flatMap((offer): Priced[] => {
    const type = reviewed[placeOf(offer.gpuId)];
    const price = priceOf(offer);
    const inStock = offer.stock !== null && offer.stock !== "" && !emptyWords.includes(offer.stock.toLowerCase());
    // VRAM that was not told cannot recommend a type; it does not take a reviewed type's later place either.
    if (type === undefined || price === null || !inStock || (offer.memoryGb ?? 0) < input.minVramGb) return [];
    return refusal(type, offer, input) === null ? [{ ...type, price }] : [];
  });
  return priced
    .sort((a, b) => a.price - b.price || placeOf(a.gpuId) - placeOf(b.gpuId))
    .slice(0, Math.max(0, input.maxPriceCandidates));
}

/** Why a type may not be bought at all, or null. What the market did not say is not held against a reviewed type. */
function refusal(type: Reviewed, offer: Offer | null, input: PlanInput): LeftOutWhy | null {
  if (input.ceilingUsdPerHour !== null && isH100Class(type.gpuId)) return "h100-class";
  if (offer === null) return null;
  if (!offer.secure) return "not-on-secure-cloud";
  if (offer.memoryGb !== null && offer.memoryGb < input.minVramGb) return "vram-below-minimum";
  const price = priceOf(offer);
  return price !== null && price > mostOf(type.tier, input.ceilingUsdPerHour) ? "above-ceiling" : null;
}

/** The most that a pod of this tier may cost, USD per hour: a tier's own limit never raises the ceiling. */
export function mostOf(tier: Tier | undefined, ceilingUsdPerHour: number | null): number {
  return Math.min(ceilingUsdPerHour ?? Infinity, tier?.maxUsdPerHour ?? Infinity);
}

/** USD per hour; the market's price is per GPU, and a pod has one. A price of 0 is no price. */
function priceOf(offer: Offer | null): number | null {
  const price = offer?.usdPerHour ?? 0;
  return price > 0 ? price : null;
}

function pricedCandidate(type: Priced): Candidate {
  return {
    name: `price-${twoDecimals(type.price)}-${type.gpuId}`,
    acceptedIds: [type.gpuId],
    price: type.price,
    tier: type.tier.name,
  };
}

function finish(input: PlanInput, candidates: readonly Candidate[], leftOut: readonly LeftOut[]): Plan {
  const tierOf = new Map(input.tiers.map((tier) => [tier.name, tier]));
  const dearest = candidates.map(({ price, tier }) => {
    const most = mostOf(tierOf.get(tier), input.ceilingUsdPerHour);
    if (price === null) return Number.isFinite(most) ? most : 0;
    return Math.min(most, price + (input.diskUsdPerHour ?? 0));
  });
  return {
    candidates,
    leftOut,
    pricingUsable: input.offers !== null,
    highestUsdPerHour: Math.max(0, ...dearest),
  };
}

/** Two decimals; an exact half goes to the even neighbour (0.125 is 0.12), so that no name claims more than the price. */
export function twoDecimals(value: number): string {
  const isHalf = Number.isInteger(value * 8) && !Number.isInteger(value * 4);
  const cents = Math.floor(value * 100);
  return isHalf ? ((cents + (cents % 2)) / 100).toFixed(2) : value.toFixed(2);
}
