/**
 * The plan of one lock hold: the live contract accepts what we send, the runner image is a digest, and the candidates stand
 * in price order. Read once per hold; any doubt is a refusal, because money follows.
 */
import { checkCatalog, checkCreateContract, describeMismatch, type CudaWish } from "../../shared/runpod/contract.ts";
import { mostOf, planCandidates, type Tier } from "../../shared/runpod/candidates.ts";
import { diskUsdPerHour } from "../../shared/runpod/default-tiers.ts";
import { probeBody } from "../../shared/runpod/create-body.ts";
import { limitMillis } from "../../shared/config/limits.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { PlanOutcome } from "../../shared/lifecycle/tasks.ts";
import type { PerformContext } from "./perform.ts";
import { runnerNote } from "./release-watch.ts";

/**
 * Begins what the plan will need while the pull request is still being re-checked. The answers are kept by the account; one
 * that fails is asked for again by the plan itself.
 */
export function beginPlan({ ports, store, request }: PerformContext): void {
  const config = request.terms === null ? null : store.config(request.terms.configHash);
  if (config === null) return;
  const maxAgeMs = limitMillis(config).market_cache;
  ports.account.market(maxAgeMs).catch(() => undefined);
  ports.resolveImage(config.gpu.image, maxAgeMs).catch(() => undefined);
}

export async function makePlan(context: PerformContext): Promise<PlanOutcome> {
  const { ports, store, request } = context;
  const config = request.terms === null ? null : store.config(request.terms.configHash);
  if (config === null) return { kind: "unknown", why: "the effective configuration is not stored", retryAt: null };

  const maxAgeMs = limitMillis(config).market_cache;
  const [market, image] = await Promise.all([
    ports.account.market(maxAgeMs),
    ports.resolveImage(config.gpu.image, maxAgeMs),
  ]);
  if (!market.ok) return { kind: "unknown", why: market.why, retryAt: null };
  const { offers, keyRefused } = market.value;
  if (keyRefused !== null) return { kind: "refused", reason: "provider-key", detail: keyRefused };
  const tiers = tiersOf(config);
  const wish: CudaWish = { kind: "allowed", versions: config.gpu.cuda_versions };
  const contract = checkCreateContract(JSON.parse(market.value.contract), probeBody(tiers[0]?.gpuIds[0] ?? "", wish));
  if (!contract.ok) {
    return { kind: "refused", reason: "contract-refused", detail: contract.error.map(describeMismatch).join(" ") };
  }
  if (!image.ok) return { kind: "refused", reason: "image-unresolved", detail: image.why };

  if (offers !== null && market.value.offersFrom === "catalog") {
    const listed = checkCatalog(offers, tiers, wish);
    if (!listed.ok) {
      return { kind: "refused", reason: "contract-refused", detail: listed.error.map(describeMismatch).join(" ") };
    }
  }
  const ceiling = config.gpu.price_ceiling_usd_per_hour;
  const plan = planCandidates({
    tiers,
    offers,
    shape: "per-id",
    minVramGb: config.gpu.min_vram_gb,
    maxPriceCandidates: config.gpu.max_priced_candidates,
    ceilingUsdPerHour: ceiling,
    diskUsdPerHour: diskUsdPerHour(config.gpu.disk_gb),
  });
  if (plan.candidates.length === 0) {
    const why = plan.leftOut.map((left) => `${left.gpuId}: ${left.why}`).join(", ");
    return { kind: "refused", reason: "capacity", detail: `No reviewed GPU may be tried. ${why}` };
  }
  const note = runnerNote(store);
  const reservedPrice = plan.highestUsdPerHour;
  return {
    kind: "planned",
    plan: {
      madeAt: ports.clock.now(),
      candidates: plan.candidates.map((candidate) => ({
        name: candidate.name,
        tier: candidate.tier,
        acceptedIds: [...candidate.acceptedIds],
        price: candidate.price,
        // A pod that costs more than its money was reserved at is given back, like one above its tier's limit (I9).
        maxPrice: Math.min(
          reservedPrice,
          mostOf(
            tiers.find((tier) => tier.name === candidate.tier),
            ceiling,
          ),
        ),
      })),
      image: image.value,
      ceilingPrice: ceiling,
      reservedPrice,
      ...(note === null ? {} : { runnerNote: note }),
      leftOut: plan.leftOut.map((left) => ({
        name: `${left.tier}-${left.gpuId}`,
        price: left.price,
        answer: `not tried: ${left.why}`,
      })),
    },
  };
}

function tiersOf(config: RepositoryConfig): Tier[] {
  return config.gpu.tiers.map((tier) => ({
    name: tier.name,
    gpuIds: tier.gpu_ids,
    maxUsdPerHour: tier.max_usd_per_hour,
  }));
}
