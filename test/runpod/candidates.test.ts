import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planCandidates, twoDecimals } from "../../shared/runpod/candidates.ts";
import type { PlanInput, Tier } from "../../shared/runpod/candidates.ts";
import {
  DEFAULT_TIERS,
  diskUsdPerHour,
  isH100Class,
  MIN_VRAM_GB,
  PRICE_CEILING_USD_PER_HOUR,
} from "../../shared/runpod/default-tiers.ts";
import type { Offer } from "../../shared/runpod/offers.ts";
import { offersFromCatalog, offersFromGraphql } from "../../shared/runpod/offers.ts";
import { validateTiers } from "../../shared/runpod/tiers.ts";

const TIERS: readonly Tier[] = [
  { name: "cheap", gpuIds: ["A", "B", "C"] },
  { name: "dear", gpuIds: ["D"] },
];

function offer(gpuId: string, usdPerHour: number | null, changes: Partial<Offer> = {}): Offer {
  return { gpuId, usdPerHour, memoryGb: 24, secure: true, stock: "HIGH", cudaVersions: null, ...changes };
}

function plan(offers: readonly Offer[] | null, changes: Partial<PlanInput> = {}) {
  return planCandidates({
    tiers: TIERS,
    offers,
    minVramGb: 8,
    maxPriceCandidates: Infinity,
    ceilingUsdPerHour: 1.6,
    shape: "per-id",
    ...changes,
  });
}

const order = (made: ReturnType<typeof plan>): readonly string[] => made.candidates.flatMap((one) => one.acceptedIds);

describe("the plan", () => {
  test("cheapest first, then what the market did not price, in reviewed order", () => {
    expect(order(plan([offer("C", 0.5), offer("D", 0.2)]))).toEqual(["D", "C", "A", "B"]);
  });

  test("equal prices keep the reviewed order", () => {
    expect(order(plan([offer("C", 0.4), offer("A", 0.4), offer("B", 0.4)]))).toEqual(["A", "B", "C", "D"]);
  });

  test("without prices the reviewed order stands alone", () => {
    const made = plan(null);
    expect(order(made)).toEqual(["A", "B", "C", "D"]);
    expect(made.pricingUsable).toBe(false);
  });

  test("stock is a hint: sold out comes last, not never", () => {
    expect(order(plan([offer("A", 0.1, { stock: "NONE" }), offer("B", 0.9)]))).toEqual(["B", "A", "C", "D"]);
  });

  test("a type that is not reviewed is never a candidate, however cheap", () => {
    expect(order(plan([offer("Z", 0.01)]))).not.toContain("Z");
  });

  test("N119: each type is tried once, and each one left out has a reason", () => {
    const made = plan([
      offer("A", 1.7),
      offer("B", 0.3, { memoryGb: 6 }),
      offer("C", 0.3, { secure: false }),
      offer("D", 0.4),
    ]);
    expect(order(made)).toEqual(["D"]);
    expect(made.leftOut.map((one) => [one.gpuId, one.why])).toEqual([
      ["A", "above-ceiling"],
      ["B", "vram-below-minimum"],
      ["C", "not-on-secure-cloud"],
    ]);
  });

  test("VRAM that was not told recommends nothing and condemns nothing", () => {
    expect(order(plan([offer("C", 0.1, { memoryGb: null }), offer("B", 0.9)]))).toEqual(["B", "A", "C", "D"]);
  });

  test("only so many are moved to the front by price", () => {
    const offers = [offer("D", 0.1), offer("C", 0.2), offer("B", 0.3)];
    expect(order(plan(offers, { maxPriceCandidates: 1 }))).toEqual(["D", "A", "B", "C"]);
    expect(order(plan(offers, { maxPriceCandidates: 0 }))).toEqual(["A", "B", "C", "D"]);
  });

  test("N121: a pod has one GPU, so its price is the market's for one", () => {
    const made = plan([offer("A", 0.7), offer("B", 1.8)]);
    expect(made.candidates[0]).toMatchObject({ acceptedIds: ["A"], price: 0.7 });
    expect(made.leftOut).toEqual([{ gpuId: "B", tier: "cheap", why: "above-ceiling", price: 1.8 }]);
  });

  test("the ceiling itself is still allowed", () => {
    expect(order(plan([offer("A", 1.6)]))[0]).toBe("A");
  });

  test("a tier may have a lower limit of its own", () => {
    const tiers: readonly Tier[] = [{ name: "cheap", gpuIds: ["A"], maxUsdPerHour: 0.3 }, ...TIERS.slice(1)];
    expect(order(plan([offer("A", 0.4)], { tiers }))).toEqual(["D"]);
  });

  test("money is reserved for the ceiling when any candidate has no price", () => {
    expect(plan([offer("A", 0.4)]).highestUsdPerHour).toBe(1.6);
    const priced = [offer("A", 0.4), offer("B", 0.5), offer("C", 0.6), offer("D", 0.7)];
    expect(plan(priced).highestUsdPerHour).toBe(0.7);
  });

  test("the whole pod is reserved: the dearest GPU with its disk, and never more than a limit lets it cost", () => {
    const priced = [offer("A", 0.4), offer("B", 0.5), offer("C", 0.6), offer("D", 0.7)];
    const disk = diskUsdPerHour(73);
    expect(disk).toBeCloseTo(0.01, 10);
    expect(plan(priced, { diskUsdPerHour: disk }).highestUsdPerHour).toBeCloseTo(0.71, 10);
    expect(plan(priced, { diskUsdPerHour: disk, ceilingUsdPerHour: 0.7 }).highestUsdPerHour).toBe(0.7);
    const cheap: readonly Tier[] = [{ name: "cheap", gpuIds: ["A", "B"], maxUsdPerHour: 0.45 }];
    // Nobody knows the price of B: it may cost what its tier's limit lets it, and no more.
    expect(plan([offer("A", 0.4)], { tiers: cheap }).highestUsdPerHour).toBe(0.45);
    expect(plan([offer("A", 0.4), offer("B", 0.9)], { tiers: cheap }).highestUsdPerHour).toBe(0.4);
  });

  test("an H100 that slipped into the tiers is not a candidate", () => {
    const tiers: readonly Tier[] = [{ name: "oops", gpuIds: ["NVIDIA H100 PCIe", "A"] }];
    expect(order(plan([offer("NVIDIA H100 PCIe", 0.1)], { tiers }))).toEqual(["A"]);
  });

  test("whatever the market says: only reviewed types, none twice, none above the ceiling", () => {
    const ids = ["A", "B", "C", "D", "Z"];
    const offers = fc.array(
      fc.record({
        gpuId: fc.constantFrom(...ids),
        usdPerHour: fc.option(fc.double({ min: -1, max: 5, noNaN: true })),
        memoryGb: fc.option(fc.integer({ min: 0, max: 80 })),
        secure: fc.boolean(),
        stock: fc.option(fc.constantFrom("HIGH", "Low", "NONE", "")),
        cudaVersions: fc.constant(null),
      }),
    );
    fc.assert(
      fc.property(offers, fc.integer({ min: 0, max: 5 }), (market, maxPriceCandidates) => {
        const made = plan(market, { maxPriceCandidates });
        const tried = order(made);
        expect(new Set(tried).size).toBe(tried.length);
        expect(tried).not.toContain("Z");
        for (const one of made.candidates) expect(one.price ?? 0).toBeLessThanOrEqual(1.6);
        expect(new Set([...tried, ...made.leftOut.map((one) => one.gpuId)])).toEqual(new Set(["A", "B", "C", "D"]));
      }),
    );
  });
});

test("two decimals: an exact half goes to the even neighbour", () => {
  expect([0.125, 0.375, 0.334, 1.777, 0.4].map(twoDecimals)).toEqual(["0.12", "0.38", "0.33", "1.78", "0.40"]);
});

describe("reading the market", () => {
  test("the catalog's secure price counts, and unknown entries are left out one by one", () => {
    const gpus = [
      {
        id: "A",
        memory: 24,
        secure: true,
        price: { secure: 0.44, community: 0.1 },
        availability: "LOW",
        cudaVersions: [{ version: "12.8", available: true }],
      },
      { nonsense: true },
      { id: "B", memory: 8, secure: false, price: { secure: 0, community: 0.2 } },
    ];
    const offers = offersFromCatalog({ gpus });
    expect(offers.ok && offers.value).toEqual([
      { gpuId: "A", memoryGb: 24, secure: true, usdPerHour: 0.44, stock: "LOW", cudaVersions: ["12.8"] },
      { gpuId: "B", memoryGb: 8, secure: false, usdPerHour: 0, stock: null, cudaVersions: null },
    ]);
  });

  test.each([[null], [{}], [{ gpus: {} }], ["x"]])("a catalog of %j is refused", (body) => {
    expect(offersFromCatalog(body).ok).toBe(false);
  });

  const graphql = (gpuTypes: unknown, more: object = {}): string => JSON.stringify({ data: { gpuTypes }, ...more });
  const entry = { id: "A", memoryInGb: 24, secureCloud: true, securePrice: 0.5 };

  test("a price of 0 does not fall back to the list price; a missing one does", () => {
    const price = (uninterruptablePrice: unknown): unknown => {
      const read = offersFromGraphql(
        200,
        graphql([{ ...entry, lowestPrice: { stockStatus: "High", uninterruptablePrice } }]),
      );
      return read.ok ? read.value[0]?.usdPerHour : read.error;
    };
    expect([price(0.3), price(0), price(null)]).toEqual([0.3, 0, 0.5]);
  });

  test("the row for CPU machines is dropped", () => {
    const read = offersFromGraphql(200, graphql([{ ...entry, id: "unknown" }]));
    expect(read.ok && read.value).toEqual([]);
  });

  test.each([
    ["another status", 503, graphql([entry]), "http"],
    ["no JSON", 200, "<html>", "not-json"],
    ["errors next to data", 200, graphql([entry], { errors: [{ message: "x" }] }), "errors"],
    ["no data", 200, '{"data":null}', "shape"],
    ["no list", 200, '{"data":{"gpuTypes":{}}}', "shape"],
  ])("%s refuses the answer as a whole", (_what, status, body, reason) => {
    expect(offersFromGraphql(status, body)).toEqual({ ok: false, error: { reason } });
  });

  test("an empty list of errors is none", () => {
    expect(offersFromGraphql(200, graphql([entry], { errors: [] })).ok).toBe(true);
  });
});

describe("tiers are checked when the configuration loads", () => {
  const limits = { ceilingUsdPerHour: PRICE_CEILING_USD_PER_HOUR };

  test("the tiers we ship pass, and offer a plan without any market", () => {
    expect(validateTiers(DEFAULT_TIERS, limits)).toEqual([]);
    const made = planCandidates({
      tiers: DEFAULT_TIERS,
      offers: null,
      minVramGb: MIN_VRAM_GB,
      maxPriceCandidates: 3,
      ceilingUsdPerHour: limits.ceilingUsdPerHour,
      shape: "per-id",
    });
    expect(made.candidates.at(-1)?.acceptedIds).toEqual(["NVIDIA A100-SXM4-80GB"]);
  });

  test.each([
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H100 PCIe",
    "NVIDIA H100 NVL",
    "NVIDIA H200",
    "NVIDIA GH200 480GB",
    "NVIDIA B200",
    "AMD Instinct MI300X OAM",
  ])("%s is refused", (id) => {
    expect(isH100Class(id)).toBe(true);
    expect(validateTiers([{ name: "t", gpuIds: [id] }], limits)).toEqual([expect.stringContaining(id)]);
  });

  test.each(DEFAULT_TIERS.flatMap((tier) => tier.gpuIds))("%s is not of the H100 class", (id) => {
    expect(isH100Class(id)).toBe(false);
  });

  test.each([
    ["no tier", []],
    ["a tier without ids", [{ name: "t", gpuIds: [] }]],
    ["a tier without a name", [{ name: "", gpuIds: ["A"] }]],
    ["an empty id", [{ name: "t", gpuIds: [""] }]],
    [
      "an id in two tiers",
      [
        { name: "t", gpuIds: ["A"] },
        { name: "u", gpuIds: ["A"] },
      ],
    ],
    ["N165: a reviewed price above the ceiling", [{ name: "t", gpuIds: ["A"], reviewedUsdPerHour: { A: 1.61 } }]],
    ["N165: a limit above the ceiling", [{ name: "t", gpuIds: ["A"], maxUsdPerHour: 2 }]],
    ["a limit that is no number", [{ name: "t", gpuIds: ["A"], maxUsdPerHour: Number.NaN }]],
  ])("%s is one problem", (_what, tiers) => {
    expect(validateTiers(tiers, limits)).toHaveLength(1);
  });

  test("the same id twice in one tier is clumsy, not wrong", () => {
    expect(validateTiers([{ name: "t", gpuIds: ["A", "A"] }], limits)).toEqual([]);
  });
});
