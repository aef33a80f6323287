/** What the local GitHub's own clock starts: schedules of the default branch, each once for a leap of the clock. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openBench, type Bench } from "./harness.ts";
import { jobOf, ofRun } from "./workflows.ts";

const TIMER = ".github/workflows/timer.yml";
const text = (cron: string): string => `name: Timer
on:
  schedule: [{cron: "${cron}"}, {cron: "30 4 * * *"}]
jobs:
  job:
    runs-on: ubuntu-24.04
    steps:
      - run: echo "$GITHUB_EVENT_NAME at \${{ github.event.schedule }} on $GITHUB_REF"
`;

let bench: Bench;
let folder: string;
let now: number;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpu-gate-schedule-"));
  now = Date.parse("2026-11-30T10:20:30Z");
  bench = await openBench({ hosted: { folder }, clock: { now: () => now } });
});
afterEach(async () => {
  await bench.close();
  rmSync(folder, { recursive: true, force: true });
});

const started = (): readonly string[] => bench.repo.runs(TIMER).map((run) => `${run.event} ${run.headBranch}`);

describe("a scheduled workflow", () => {
  it("starts in its minute, at the default branch, once, and knows which schedule it was", async () => {
    bench.repo.commit({ files: { [TIMER]: text("21 * * * *") } });
    expect(bench.github.runSchedules()).toEqual([]);
    now += 40_000;
    const [id = 0] = bench.github.runSchedules();
    expect(bench.github.runSchedules()).toEqual([]);
    await bench.hook("workflow_run", "completed", ofRun(id));
    expect(started()).toEqual(["schedule main"]);
    const run = bench.repo.runs(TIMER)[0];
    expect(run === undefined ? "" : jobOf(run).log).toBe("schedule at 21 * * * * on refs/heads/main\n");
  });

  it("is not caught up with, minute by minute, by a clock that leapt", () => {
    bench.repo.commit({ files: { [TIMER]: text("*/5 * * * *") } });
    now += 24 * 3_600_000;
    expect(bench.github.runSchedules()).toHaveLength(2);
  });

  it("rests while it is disabled, and where it lies on another branch", () => {
    bench.repo.commit({ files: { [TIMER]: text("* * * * *") } });
    bench.repo.setWorkflowState(TIMER, "disabled_manually");
    bench.repo.commit({ branch: "topic", files: { ".github/workflows/other.yml": text("* * * * *") } });
    now += 60_000;
    expect(bench.github.runSchedules()).toEqual([]);
    bench.repo.setWorkflowState(TIMER, "active");
    now += 60_000;
    expect(bench.github.runSchedules()).toHaveLength(1);
  });
});
