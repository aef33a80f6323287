import { expect, it } from "vitest";
import { playInJobs } from "../../sim/processes.ts";
import { installPlatform } from "../../sim/platform.ts";
import { DEFAULT_RUN, runSeed } from "../../sim/run.ts";
import { Totals } from "../../sim/totals.ts";

const FIRST = 41;
const base = { ...DEFAULT_RUN, maxPulls: 1, maxRepositories: 1 };
const options = { base, twice: false, keepGoing: true };

/** The seeds from the first one on, one at a time. */
function counter(seeds: number) {
  let given = 0;
  return () => (given === seeds ? null : FIRST + given++);
}

it("come to the same in several processes as in one", async () => {
  const alone = new Totals();
  const uninstall = installPlatform();
  try {
    for (let seed = FIRST; seed < FIRST + 2; seed += 1) alone.take(await runSeed({ ...base, seed }));
  } finally {
    uninstall();
  }
  const together = new Totals();
  let answers = 0;
  await playInJobs({
    ...options,
    jobs: 2,
    atOnce: 1,
    next: counter(2),
    told: ({ totals, cpuSeconds }) => {
      expect(cpuSeconds).toBeGreaterThan(0);
      answers += 1;
      together.add(totals);
      return true;
    },
  });
  expect([answers, alone.ran]).toEqual([2, 2]);
  expect(together.json()).toEqual(alone.json());
});

it("are ordered no more once somebody has heard enough", async () => {
  const next = counter(1_000);
  let ran = 0;
  const told = ({ totals }: { totals: { ran: number } }) => {
    ran += totals.ran;
    return false;
  };
  await playInJobs({ ...options, jobs: 1, atOnce: 1, next, told });
  expect([ran, next()]).toEqual([1, FIRST + 1]);
});

it("are named when their process breaks", async () => {
  const seeds = [Number.NaN];
  const broken = playInJobs({ ...options, jobs: 1, next: () => seeds.pop() ?? null, told: () => true });
  await expect(broken).rejects.toThrow("a process ended with 1 while it played the seeds NaN");
});
