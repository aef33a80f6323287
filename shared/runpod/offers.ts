/**
 * What the market says: price and stock per GPU type, from the v2 catalog or from the public GraphQL query.
 *
 * Both answers become the same `Offer`. An offer orders candidates and is never a reservation: L40S "HIGH" was sold out
 * three minutes later (runpod-facts quirk 17). One entry that does not read is left out; the others stay.
 */
import * as z from "zod";
import type { Result } from "../result.ts";
import { err, ok } from "../result.ts";
import { parseJson } from "./provider-text.ts";

export interface Offer {
  readonly gpuId: string;
  /** VRAM in GB; null when it was not told. */
  readonly memoryGb: number | null;
  /** Offered in RunPod's own data centres. */
  readonly secure: boolean;
  /** USD per hour for a single GPU on the secure cloud; null when there is no price. */
  readonly usdPerHour: number | null;
  /** RunPod's word (`HIGH`, `Low`, ...), null when it says nothing. */
  readonly stock: string | null;
  /** CUDA versions offered for this type (catalog only); null when it was not told. */
  readonly cudaVersions: readonly string[] | null;
}

export type OffersRefused = { readonly reason: "http" | "not-json" | "errors" | "shape" };

const numberOrNull = z.number().nullable().catch(null);

const catalogEntry = z.object({
  id: z.string().min(1),
  memory: numberOrNull.optional(),
  secure: z.boolean().catch(false),
  price: z.object({ secure: numberOrNull.optional() }).catch({}).optional(),
  availability: z.string().nullable().optional().catch(null),
  cudaVersions: z
    .array(z.object({ version: z.string() }))
    .nullable()
    .optional()
    .catch(null),
});

const catalogAnswer = z.object({ gpus: z.array(z.unknown()) });

/** Reads the body of `GET /v2/catalog/gpus`. Its price is per single GPU and per cloud; the secure one counts. */
export function offersFromCatalog(body: unknown): Result<readonly Offer[], OffersRefused> {
  const parsed = catalogAnswer.safeParse(body);
  if (!parsed.success) return err({ reason: "shape" });
  return ok(
    parsed.data.gpus.flatMap((value) => {
      const entry = catalogEntry.safeParse(value);
      if (!entry.success) return [];
      const { id, memory, secure, price, availability, cudaVersions } = entry.data;
      return [
        {
          gpuId: id,
          memoryGb: memory ?? null,
          secure,
          usdPerHour: price?.secure ?? null,
          stock: availability ?? null,
          cudaVersions: cudaVersions?.map((one) => one.version) ?? null,
        },
      ];
    }),
  );
}

/**
 * The unauthenticated query. Only fields that were seen to work without a key: RunPod removed others without notice, and a
 * query that names a removed field is refused as a whole.
 */
export const PRICING_QUERY =
  "query { gpuTypes { id memoryInGb secureCloud securePrice " +
  "lowestPrice(input: {gpuCount: 1, secureCloud: true}) { stockStatus uninterruptablePrice } } }";

const graphqlEntry = z.object({
  id: z.string().min(1),
  memoryInGb: numberOrNull.optional(),
  secureCloud: z.unknown().optional(),
  securePrice: numberOrNull.optional(),
  lowestPrice: z
    .object({
      stockStatus: z.string().nullable().catch(null).optional(),
      uninterruptablePrice: numberOrNull.optional(),
    })
    .nullable()
    .catch(null)
    .optional(),
});

const graphqlAnswer = z.object({
  errors: z.unknown().optional(),
  data: z.object({ gpuTypes: z.array(z.unknown()) }),
});

/**
 * Reads the answer to `PRICING_QUERY`. Anything but a 200 with data and without errors is refused as a whole: half a price
 * list would quietly change the order. The row `unknown` (CPU machines) is dropped.
 */
export function offersFromGraphql(status: number, bodyText: string): Result<readonly Offer[], OffersRefused> {
  if (status !== 200) return err({ reason: "http" });
  const json = parseJson(bodyText);
  if (json === undefined) return err({ reason: "not-json" });
  const head = z.object({ errors: z.unknown() }).safeParse(json);
  if (head.success && isTruthy(head.data.errors)) return err({ reason: "errors" });
  const parsed = graphqlAnswer.safeParse(json);
  if (!parsed.success) return err({ reason: "shape" });
  return ok(
    parsed.data.data.gpuTypes.flatMap((value) => {
      const entry = graphqlEntry.safeParse(value);
      if (!entry.success || entry.data.id === "unknown") return [];
      const { id, memoryInGb, secureCloud, securePrice, lowestPrice } = entry.data;
      return [
        {
          gpuId: id,
          memoryGb: memoryInGb ?? null,
          secure: isTruthy(secureCloud),
          // A price of 0 is an answer ("not for sale"), not a gap to be filled from the list price.
          usdPerHour: lowestPrice?.uninterruptablePrice ?? securePrice ?? null,
          stock: lowestPrice?.stockStatus ?? null,
          cudaVersions: null,
        },
      ];
    }),
  );
}

/** GraphQL has sent `errors: []` and `errors: null` with good data; an empty thing is no error. */
function isTruthy(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}
