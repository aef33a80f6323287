/** A sample of the simulator in every test run: fixed seeds hold, one seed is one history, and a calm world ends green. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FaultKind } from "../../sim/faults.ts";
import { checkersFor } from "../../sim/checkers/index.ts";
import { World } from "../../sim/world.ts";
import { installPlatform } from "../../sim/platform.ts";
import { DEFAULT_RUN, runSeed, type RunOptions } from "../../sim/run.ts";

let uninstall: () => void = () => undefined;
beforeAll(() => {
  uninstall = installPlatform();
});
afterAll(() => uninstall());

const small: Omit<RunOptions, "seed"> = { ...DEFAULT_RUN, maxPulls: 1, maxRepositories: 1 };
const CALM: ReadonlySet<FaultKind> = new Set();

describe("the simulator", () => {
  test.each(Array.from({ length: 8 }, (_, index) => index + 1))("seed %i holds every invariant", async (seed) => {
    const result = await runSeed({ ...small, seed });
    expect(result.violation).toBeNull();
    expect(result.events).toBeGreaterThan(100);
  });

  test("one seed is one history, another seed is another", async () => {
    const first = await runSeed({ ...small, seed: 24 });
    const again = await runSeed({ ...small, seed: 24 });
    const other = await runSeed({ ...small, seed: 25 });
    expect(again.digest).toBe(first.digest);
    expect(other.digest).not.toBe(first.digest);
  });

  test("a calm world rents one pod and ends green", async () => {
    const result = await runSeed({ ...small, seed: 1, only: CALM });
    expect(result.violation).toBeNull();
    expect(result.pods).toBe(1);
    expect(result.coverage.reasons.get("tests-passed")).toBeGreaterThan(0);
  });

  test("a request whose artifacts are cleaned up twice says that they are missing", async () => {
    const world = new World({
      plan: { seed: 1, weights: new Map<FaultKind, number>([["artifacts-cleaned", 3]]), scene: null },
      keepTrace: false,
      maxPulls: 1,
      maxRepositories: 1,
      checkers: checkersFor(),
    });
    await world.run(12 * 3_600_000);
    world.close();
    expect(world.violation).toBeNull();
    expect([...world.coverage.reasons.keys()]).toContain("artifacts-missing");
  });

  test("a night across the end of the month ends with its bill beside every estimate", async () => {
    // The day on which it begins has its turn as well.
    const nights: ReadonlySet<FaultKind> = new Set(["near-midnight"]);
    const result = await runSeed({ ...small, seed: 10, only: nights });
    expect(result.violation).toBeNull();
    expect(result.faults).toEqual(["near-midnight"]);
    expect(result.coverage.calls.get("runpod billing")).toBe(2);
  });

  test("switching a kind of fault off leaves what the others draw as it was", async () => {
    const with1 = await runSeed({ ...small, seed: 5, only: new Set<FaultKind>(["hook-delayed"]) });
    const with2 = await runSeed({
      ...small,
      seed: 5,
      only: new Set<FaultKind>(["hook-delayed", "runpod-balance"]),
      without: new Set<FaultKind>(["runpod-balance"]),
    });
    expect(with2.digest).toBe(with1.digest);
  });
});
