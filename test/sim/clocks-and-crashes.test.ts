/** Clocks that differ, instances that end at any await, and what RunPod shows of pods that it has let go. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simResponse } from "../../sim/answer.ts";
import { checkersFor } from "../../sim/checkers/index.ts";
import { Clocks, MOST_MS } from "../../sim/clocks.ts";
import { Faults, type FaultKind } from "../../sim/faults.ts";
import { newOwner } from "../../sim/hosts.ts";
import { installPlatform, runAs } from "../../sim/platform.ts";
import { Prng } from "../../sim/prng.ts";
import { DEFAULT_RUN, runSeed } from "../../sim/run.ts";
import { Scheduler } from "../../sim/scheduler.ts";
import { World } from "../../sim/world.ts";

let uninstall: () => void = () => undefined;
beforeAll(() => {
  uninstall = installPlatform();
});
afterAll(() => uninstall());

const HOUR = 3_600_000;

function clocksOf(seed: number, ...kinds: readonly FaultKind[]): Clocks {
  const plan = { seed, weights: new Map(kinds.map((kind) => [kind, 2] as const)), scene: null };
  return new Clocks(new Faults(plan), new Prng(seed, "clocks"), 0, HOUR);
}

describe("the clocks", () => {
  test("are one where nothing sets them apart", () => {
    const clocks = clocksOf(1);
    expect([clocks.ours(0), clocks.ours(HOUR), clocks.runpod, clocks.widest]).toEqual([0, 0, 0, 0]);
    expect(clocks.when(5)).toEqual({ earliest: 5, latest: 5 });
  });

  test.each([["clock-skew"], ["clock-drifts"], ["clock-is-set"], ["clocks-apart"]] as const)(
    "%s alone: what our clock shows was between the two instants that are told, and no two are too far apart",
    (kind) => {
      let moved = 0;
      for (let seed = 1; seed <= 20; seed += 1) {
        const clocks = clocksOf(seed, kind);
        if (clocks.widest > 0) moved += 1;
        expect(clocks.widest).toBeLessThanOrEqual(2 * MOST_MS);
        for (let now = 0; now <= 2 * HOUR; now += 60_000) {
          const { earliest, latest } = clocks.when(now + clocks.ours(now));
          expect(earliest).toBeLessThanOrEqual(now);
          expect(latest).toBeGreaterThanOrEqual(now);
        }
      }
      expect(moved).toBeGreaterThan(10);
    },
  );

  test("a clock that is set jumps once; one that drifts takes an hour", () => {
    const offsets = (kind: FaultKind): Set<number> => {
      const clocks = clocksOf(3, kind);
      return new Set(Array.from({ length: 61 }, (_, minute) => clocks.ours(minute * 60_000)));
    };
    expect(offsets("clock-is-set").size).toBe(2);
    expect(offsets("clock-drifts").size).toBeGreaterThan(30);
  });
});

describe("an instance that ends as it awaits the platform", () => {
  const digest = (): Promise<ArrayBuffer> => crypto.subtle.digest("SHA-256", new Uint8Array(1));
  const body = async (): Promise<unknown> => simResponse(200, "{}", {}).body?.getReader().read();

  test.each([
    ["a digest", digest],
    ["a body", body],
  ])("goes no further than %s", async (_what, awaits) => {
    const scheduler = new Scheduler(0);
    const asked: string[] = [];
    const ending = newOwner(scheduler, (owner, what) => {
      asked.push(what);
      owner.alive = false;
      return new Promise(() => undefined);
    });
    const went: string[] = [];
    const runs = async (name: string): Promise<void> => {
      await awaits();
      went.push(name);
    };
    void runAs(ending, () => runs("ended"));
    await runAs(newOwner(scheduler), () => runs("lives"));
    await scheduler.settle();
    expect(asked).toHaveLength(1);
    expect(went).toEqual(["lives"]);
  });

  test("starts again on what was stored, and the world comes to rest", async () => {
    const only: ReadonlySet<FaultKind> = new Set(["crash-gate", "crash-cron", "await-slow"]);
    let ends = 0;
    for (let seed = 1; seed <= 6; seed += 1) {
      const result = await runSeed({ ...DEFAULT_RUN, maxPulls: 2, maxRepositories: 1, seed, only });
      expect(result.violation).toBeNull();
      for (const [note, count] of result.coverage.notes) if (note.startsWith("an instance ends")) ends += count;
    }
    expect(ends).toBeGreaterThan(0);
  });
});

test("a pod that RunPod shows after it has let it go is called gone when it is shown no more, and never before", async () => {
  const weights = new Map<FaultKind, number>([
    ["runpod-ghost-listed", 2],
    ["runpod-ghost-read", 2],
  ]);
  let shown = 0;
  for (let seed = 1; seed <= 4; seed += 1) {
    const plan = { seed, weights, scene: null };
    const world = new World({ plan, keepTrace: false, maxPulls: 2, maxRepositories: 1, checkers: checkersFor() });
    await world.run(12 * HOUR);
    expect(world.violation).toBeNull();
    for (const { id, listedUntil, readUntil, ghost } of world.runpod.pods) {
      const line = world.hosts[0]?.sql.exec<{ gone: number }>(
        "SELECT proven_at AS gone FROM ledger WHERE pod_id = ?",
        id,
      );
      const until = Math.max(listedUntil, readUntil);
      if (until === 0 || ghost === "TERMINATED") continue;
      shown += 1;
      expect(line?.[0]?.gone).toBeGreaterThan(until);
    }
    world.close();
  }
  expect(shown).toBeGreaterThan(0);
});
