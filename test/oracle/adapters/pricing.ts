/** Corpus pricing: tiers and one pricing answer, and the ordered plan. One upstream tier is one candidate. */
import { planCandidates } from "../../../shared/runpod/candidates.ts";
import { offersFromGraphql } from "../../../shared/runpod/offers.ts";
import type { CorpusAdapter } from "../adapter.ts";

interface PricingCase {
  readonly config: { readonly minVramGb?: number; readonly maxPriceCandidates?: number };
  readonly tiers: readonly { readonly name: string; readonly gpuTypeIds: readonly string[] }[];
  readonly response: { readonly status?: number; readonly body?: string; readonly transportError?: unknown };
  readonly expected: { readonly plan: unknown; readonly pricingUsable: boolean };
}

export const adapter: CorpusAdapter = {
  corpus: "pricing",
  run: (testCase) => {
    const { config, tiers, response, expected } = testCase as unknown as PricingCase;
    const offers = response.status === undefined ? null : offersFromGraphql(response.status, response.body ?? "");
    const plan = planCandidates({
      tiers: tiers.map((tier) => ({ name: tier.name, gpuIds: tier.gpuTypeIds })),
      offers: offers?.ok === true ? offers.value : null,
      // The corpus's own defaults for keys a case leaves out.
      minVramGb: config.minVramGb ?? 0,
      maxPriceCandidates: config.maxPriceCandidates ?? 4,
      ceilingUsdPerHour: null,
      shape: "per-tier",
      // Upstream takes any non-empty word for stock.
      emptyStockWords: [],
    });
    const actual = {
      plan: plan.candidates.map((candidate) => [candidate.name, candidate.acceptedIds]),
      pricingUsable: plan.pricingUsable,
    };
    return { pass: JSON.stringify(actual) === JSON.stringify(plain(expected)), expected, actual };
  },
};

function plain(expected: PricingCase["expected"]): unknown {
  return { plan: expected.plan, pricingUsable: expected.pricingUsable };
}
