/** Clocks that differ, instances that end at any await, and what RunPod shows of pods that it has let go. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simResponse } from "../../sim/answer.ts";
import { checkersFor } from "../../sim/checkers/index.ts";
import { Clocks, MOST_MS, PLACES } from "../../sim/clocks.ts";
import { Coverage } from "../../sim/coverage.ts";
import { Crashes } from "../../sim/crashes.ts";
import { Faults, type FaultKind } from "../../sim/faults.ts";
import { newOwner, type AccountHost, type GateHost } from "../../sim/hosts.ts";
import { installPlatform, runAs } from "../../sim/platform.ts";
import { Prng } from "../../sim/prng.ts";
import { DEFAULT_RUN, runSeed } from "../../sim/run.ts";
import { Scheduler } from "../../sim/scheduler.ts";
import { Trace } from "../../sim/trace.ts";
import type { WorkerHost } from "../../sim/worker.ts";
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
    const shown = PLACES.flatMap((place) => [clocks.ours(place, 0), clocks.ours(place, HOUR)]);
    expect([...shown, clocks.runpod(0), clocks.runpod(HOUR), clocks.widest].filter((ahead) => ahead !== 0)).toEqual([]);
    expect(clocks.when(5)).toEqual({ earliest: 5, latest: 5 });
  });

  test.each([
    ["clock-skew"],
    ["clock-drifts"],
    ["clock-is-set"],
    ["clocks-apart"],
    ["clock-of-runpod-moves"],
    ["clocks-of-our-own"],
  ] as const)(
    "%s alone: what a clock shows was between the two instants that are told, and no two are too far apart",
    (kind) => {
      let moved = 0;
      for (let seed = 1; seed <= 20; seed += 1) {
        const clocks = clocksOf(seed, kind);
        if (clocks.widest > 0) moved += 1;
        expect(clocks.widest).toBeLessThanOrEqual(2 * MOST_MS);
        for (let now = 0; now <= 2 * HOUR; now += 60_000) {
          for (const place of PLACES) {
            const ahead = clocks.ours(place, now);
            const { earliest, latest } = clocks.when(now + ahead, [place]);
            expect(earliest).toBeLessThanOrEqual(now);
            expect(latest).toBeGreaterThanOrEqual(now);
            expect(Math.max(Math.abs(ahead), Math.abs(ahead - clocks.runpod(now)))).toBeLessThanOrEqual(clocks.widest);
          }
        }
      }
      expect(moved).toBeGreaterThan(10);
    },
  );

  test("a clock that is set jumps once; one that drifts takes an hour", () => {
    const offsets = (kind: FaultKind): Set<number> => {
      const clocks = clocksOf(3, kind);
      return new Set(Array.from({ length: 61 }, (_, minute) => clocks.ours("gate", minute * 60_000)));
    };
    expect(offsets("clock-is-set").size).toBe(2);
    expect(offsets("clock-drifts").size).toBeGreaterThan(30);
  });

  test("of our own: each place has one, and the gates' is left as it was", () => {
    const clocks = clocksOf(3, "clocks-of-our-own");
    expect(clocks.ours("gate", 0)).toBe(0);
    expect(new Set(PLACES.map((place) => clocks.ours(place, 0))).size).toBe(PLACES.length);
  });

  test("RunPod's shows a time for the first time when nothing earlier showed it, whichever way it moves", () => {
    const jumps: number[] = [];
    for (let seed = 1; seed <= 20; seed += 1) {
      const clocks = clocksOf(seed, "clocks-apart", "clock-of-runpod-moves");
      const shows = (now: number): number => now + clocks.runpod(now);
      for (let told = -5_000; told < HOUR; told += 777) {
        const first = clocks.runpodReaches(told);
        // A drift is rounded to the millisecond.
        expect(shows(first)).toBeGreaterThanOrEqual(told - 1);
        expect(shows(first - 2)).toBeLessThan(told);
        expect(clocks.runpodReaches(told, first + 10)).toBeGreaterThanOrEqual(first + 10);
        if (shows(first) - told > 10) jumps.push(shows(first) - told);
      }
    }
    // One that is set ahead never shows what it skips.
    expect(jumps.length).toBeGreaterThan(0);
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

  test.each([
    ["crash-gate", "gate"],
    ["crash-account", "account"],
    ["crash-worker", "worker"],
    ["crash-cron", "cron"],
  ] as const)("%s: whoever the simulator lets end there goes no further, and is counted", async (kind, what) => {
    const scheduler = new Scheduler(0);
    const faults = new Faults({ seed: 1, weights: new Map([[kind, 1_000]]), scene: null });
    const coverage = new Coverage();
    const [gate, account, worker] = [newOwner(scheduler), newOwner(scheduler), newOwner(scheduler)];
    const host = { owner: gate, up: true, repository: { name: "one" }, crash: () => void (gate.alive = false) };
    const crashes = new Crashes({
      scheduler,
      faults,
      trace: new Trace(scheduler, false),
      coverage,
      hosts: [host as unknown as GateHost],
      net: () => ({ unheard: [] }) as never,
      worker: () => ({ owner: worker, restart: () => void (worker.alive = false) }) as unknown as WorkerHost,
      account: () => ({ owner: account, crash: () => void (account.alive = false) }) as unknown as AccountHost,
    });
    const owner = { gate, account, worker, cron: crashes.isolate.owner }[what];
    // Each has nine chances in ten to end at an await, so hardly any gets through twenty.
    const hands = { ...owner, pauses: () => crashes.pause(owner, "digest") };
    let awaited = 0;
    void runAs(hands, async () => {
      for (; awaited < 20; awaited += 1) await digest();
    });
    await scheduler.settle();
    while (scheduler.step(HOUR) !== null) await scheduler.settle();
    expect(owner.alive).toBe(false);
    expect(awaited).toBeLessThan(20);
    expect([...coverage.notes]).toEqual([["an instance ends as it awaits digest", 1]]);
    // Nor does it begin anything more.
    expect(crashes.pause(owner, "digest")).not.toBeNull();
    expect(faults.struck.get(kind)).toBe(1);
  });

  test("is an error to whoever waits for an answer of it", async () => {
    const plan = { seed: 1, weights: new Map<FaultKind, number>(), scene: null };
    const world = new World({ plan, keepTrace: false, maxPulls: 1, maxRepositories: 1, checkers: [] });
    const [host] = world.hosts;
    if (host === undefined) throw new Error("there is no gate");
    const calls = [
      host.inside(() => new Promise<void>(() => undefined)),
      world.account.inside(() => new Promise<void>(() => undefined)),
    ];
    const answers = Promise.allSettled(calls);
    host.crash(0);
    world.account.crash();
    expect((await answers).map((answer) => answer.status === "rejected" && String(answer.reason))).toEqual([
      "Error: the gate was reset",
      "Error: the account was reset",
    ]);
    world.close();
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
