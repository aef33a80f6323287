/** The operator's words about one request, over a whole life, and what the gate then tells of it. */
import { expect, it } from "vitest";
import { SLOW_TESTS } from "../../local/world/workflows.ts";
import { explain } from "../../durable-objects/gate/operator.ts";
import { CONFIG, startLife, verdictOf } from "./life.ts";

const WORD = { by: "ops", reason: "a word", micros: null };

it.concurrent("cancel ends a run in its middle: the pod goes first, and the audit names who said it", async (test) => {
  const world = await startLife();
  test.onTestFinished(() => world.close());
  const head = world.openCode("slow", { [SLOW_TESTS]: "" });
  const running = await world.until(head, "its run", ({ state }) => state.kind === "executing");
  expect(world.gate.operator({ ...WORD, action: "release", requestId: running.id })).toMatchObject({ done: false });
  expect(world.gate.operator({ ...WORD, action: "cancel", requestId: running.id })).toMatchObject({ done: true });
  const request = await world.concluded(head);
  expect(verdictOf(request)).toMatchObject({ kind: "cancelled", reason: "cancelled-by-operator" });
  expect(verdictOf(request).detail).toContain("ops");
  expect(world.runpod.pods().every((pod) => pod.releasedAtMs !== null)).toBe(true);
  expect(world.gate.operator({ ...WORD, action: "cancel", requestId: running.id })).toMatchObject({ done: false });
  expect(world.gate.operator({ ...WORD, action: "force", requestId: running.id })).toMatchObject({ done: false });
  const words = world.audits().filter((entry) => entry.act.startsWith("operator."));
  expect(words.map((entry) => [entry.act, entry.facts["by"], entry.facts["done"]])).toEqual([
    ["operator.release", "ops", false],
    ["operator.cancel", "ops", true],
    ["operator.cancel", "ops", false],
    ["operator.force", "ops", false],
  ]);

  const [told] = explain({ podId: world.runpod.pods()[0]?.id ?? "" }, world.gate.store);
  expect(told?.request).toMatchObject({ id: running.id, verdict: "cancelled" });
  expect(told?.decisions[0]).toMatchObject({ act: "request.open", facts: { head } });
  expect(told?.decisions.find((one) => one.act === "request.conclude")?.rule).toMatch(/operator/);
  expect(explain({ prNumber: 1 }, world.gate.store).map((one) => one.request.id)).toEqual([running.id]);
  expect(explain({ requestId: "r99" }, world.gate.store)).toEqual([]);
});

it.concurrent("approve gives a run that ended over budget a cap of its own, and only that run", async (test) => {
  const world = await startLife({ config: CONFIG.replace("limits:\n", "budget:\n  per_run: 0.0001\nlimits:\n") });
  test.onTestFinished(() => world.close());
  const head = world.openCode("matmul");
  const first = await world.concluded(head);
  expect(verdictOf(first)).toMatchObject({ kind: "over-budget" });
  expect(world.runpod.pods()).toEqual([]);
  expect(world.gate.operator({ ...WORD, action: "approve", requestId: first.id })).toMatchObject({ done: false });
  const word = { ...WORD, action: "approve", requestId: first.id, micros: 3_000_000 } as const;
  expect(world.gate.operator(word)).toMatchObject({ done: true });
  expect(world.gate.operator(word)).toMatchObject({ done: false });
  const second = await world.until(
    head,
    "the approved run",
    (one) => one.generation === 2 && one.state.kind === "concluded" && one.check.completed,
  );
  expect(verdictOf(second)).toMatchObject({ kind: "passed" });
  const other = world.openCode("conv");
  expect(verdictOf(await world.concluded(other))).toMatchObject({ kind: "over-budget" });
});
