/** N135, the whole product but the Worker's shell: an image that takes longer to arrive than a pod has to come up. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { costLines } from "../../durable-objects/gate/costs.ts";
import { CONFIG, startLife, type Life } from "./life.ts";
import { REPOSITORY_ID } from "./world.ts";

/** The second pod has to come up within it, on a busy machine too. */
const BUDGET_SECONDS = 8;
let day: Life;

beforeAll(async () => {
  day = await startLife({
    config: CONFIG.replace("acceptance: 60", `acceptance: ${BUDGET_SECONDS}`).replace(
      "no_machine: 40",
      "no_machine: 6",
    ),
  });
}, 60_000);
afterAll(() => day.close());

it("N135: is given up with the budget and paid as the pull, and the next pod's check shows that stage", async () => {
  day.runpod.nextPod({ timing: { bootMs: 14 * 60_000 } });
  const head = day.openCode("matmul");
  const request = await day.concluded(head);
  expect(request.state).toMatchObject({ kind: "concluded", verdict: { kind: "passed" } });
  const [first, second, ...more] = costLines(day.sql, REPOSITORY_ID, 0, 8.64e15).costs;
  expect(more).toEqual([]);
  const stagesOf = (report: typeof first) => new Map((report?.stages ?? []).map((one) => [one.name, one]));

  // The first: nothing but a machine and a pull that was cut off.
  expect(first).toMatchObject({ outcome: "startup", accepted: false, decisive: false });
  expect(first?.flags).toContain("image-pull-unfinished");
  const pull = stagesOf(first).get("image_pull");
  const machine = stagesOf(first).get("machine_assignment")?.durationMs ?? 0;
  expect((pull?.durationMs ?? 0) + machine).toBe(first?.paidMs);
  expect(pull?.cost).toBeGreaterThan(0);
  expect(first?.paidMs).toBeLessThan(2 * BUDGET_SECONDS * 1000);

  // The second says itself when its container began.
  expect(stagesOf(second).has("image_pull")).toBe(true);
  expect(stagesOf(second).get("image_pull")?.durationMs).toBeLessThan(second?.paidMs ?? 0);
  for (const report of [first, second]) {
    const stages = report?.stages ?? [];
    expect(stages.reduce((sum, stage) => sum + stage.durationMs, 0)).toBe(report?.paidMs);
    expect(stages.reduce((sum, stage) => sum + (stage.cost ?? 0), 0)).toBe(report?.cost);
  }
  const text = day.repository.checkRuns(head).find((run) => run.name === "CI GPU gate")?.text ?? "";
  expect(text).toMatch(/\| image pull \| \d+\.\d \| \$/);
  expect(text).toMatch(/Pods before it:[\s\S]*\| startup \|/);
});
