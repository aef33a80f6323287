import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { recordBills } from "../../durable-objects/gate/bills.ts";
import { costLines } from "../../durable-objects/gate/costs.ts";
import { gateMoney } from "../../durable-objects/gate/money.ts";
import { keepMoneyId, retentionOf } from "../../durable-objects/gate/retention.ts";
import { BROKEN_TESTS } from "../../local/world/workflows.ts";
import { CONFIG, startLife, type Life } from "./life.ts";
import { REPOSITORY_ID } from "./world.ts";

const FOREVER = 8.64e15;

describe("the cost of a run", () => {
  let day: Life;
  let head: string;

  beforeAll(async () => {
    const observed = "  observations: { archive_transferred: [Download the archives], unheard_of: [No such step] }\n";
    day = await startLife({ config: CONFIG.replace("evidence:\n", `evidence:\n${observed}`) });
    head = day.openCode("matmul");
    await day.concluded(head);
  }, 60_000);
  afterAll(() => day.close());

  const costs = () => costLines(day.sql, REPOSITORY_ID, 0, FOREVER).costs;

  it("is one report per closed ledger line, whose stages add up to the line exactly", () => {
    const [line, ...others] = day.gate.store.ledgerLines(10);
    expect(others).toEqual([]);
    const [report, ...more] = costs();
    expect(more).toEqual([]);
    expect(report).toMatchObject({
      podId: line?.pod_id,
      cost: line?.estimate_micros,
      outcome: "tests-passed",
      accepted: true,
      decisive: true,
      verdict: { kind: "passed", reason: "tests-passed" },
      priceSource: "pod",
      pricePerHour: 0.25,
      tier: "cost-preferred",
      gpuJob: "success",
      headSha: head,
    });
    const stages = report?.stages ?? [];
    expect(stages.reduce((sum, stage) => sum + stage.durationMs, 0)).toBe(
      (line?.closed_at ?? 0) - (line?.paid_from ?? 0),
    );
    expect(stages.reduce((sum, stage) => sum + (stage.cost ?? 0), 0)).toBe(line?.estimate_micros);
    expect(stages.map((stage) => stage.name)).toContain("tests");
    expect(report?.testedSha).toMatch(/^[0-9a-f]{40}$/);
  });

  it("says which cache facts hold, and that it does not know the others", () => {
    expect(costs()[0]?.observations).toEqual({ archive_transferred: true, unheard_of: null });
  });

  it("stands in the details of the check, the GPU and its price with it", () => {
    const text = day.repository.checkRuns(head).find((run) => run.name === "CI GPU gate")?.text ?? "";
    expect(text).toContain("<summary>Cost</summary>");
    expect(text).toContain("| tests |");
    expect(text).toContain("archive\\_transferred: yes, unheard\\_of: unknown");
  });

  it("leaves the money spent on both sides, as much as the ledger says", () => {
    const line = day.gate.store.ledgerLines(1)[0];
    expect(day.account.openReservations()).toEqual([]);
    expect(day.account.totals()).toEqual({ spent: line?.estimate_micros, reserved: 0 });
    expect(gateMoney(day.sql, day.gate.store, []).open).toEqual([]);
  });

  it("agrees with RunPod's own bill within what our clock can explain, and stays as it was", async () => {
    const before = day.gate.store.ledgerLines(1)[0];
    const bills = await day.account.bills(Date.now() - 86_400_000, Date.now());
    if (!bills.ok) throw new Error(bills.why);
    expect(bills.value).toHaveLength(1);
    const window = { since: 0, settledBefore: Date.now() + 1 };
    const taken = recordBills(day.sql, day.gate.store, bills.value, window, Date.now());
    expect(taken).toEqual({ known: [before?.pod_id], drifts: [] });
    const after = day.gate.store.ledgerLines(1)[0];
    expect(after?.billed_micros).toBe(bills.value[0]?.micros);
    expect(after?.estimate_micros).toBe(before?.estimate_micros);
  });
});

describe("a failed run whose pod is kept", () => {
  let day: Life;

  beforeAll(async () => {
    const retention = "retention: { keep_on_failure: true, duration: 600, max_retention: 1200 }\n";
    day = await startLife({ config: CONFIG + retention });
  }, 60_000);
  afterAll(() => day.close());

  it("concludes as failed, gives up the lock, keeps the pod with its money, and removes it at its end", async () => {
    const head = day.openCode("sum", { [BROKEN_TESTS]: "yes\n" });
    const request = await day.until(head, "a published verdict", (one) => one.check.completed);
    expect(request.state).toMatchObject({ kind: "concluded", verdict: { kind: "failed" } });
    expect(day.gate.store.lock().holder).toBeNull();
    const podId = request.keep?.podId ?? "";
    expect(day.runpod.pods().find((pod) => pod.id === podId)?.status).toBe("RUNNING");
    const record = retentionOf(day.gate.store, podId);
    expect(record).toMatchObject({ podId, by: "configuration" });
    expect((record?.until ?? 0) - Date.now()).toBeGreaterThan(500_000);
    const attempt = `${request.id}-1`;
    const open = gateMoney(day.sql, day.gate.store, []).open.map((one) => one.attemptId);
    expect(open).toEqual([attempt, keepMoneyId(attempt)]);
    expect(day.account.openReservations()).toHaveLength(2);

    // The next request of this repository does not wait for it.
    const second = day.openCode("norm");
    const passed = await day.until(second, "the next verdict", (one) => one.state.kind === "concluded");
    expect(passed.state).toMatchObject({ verdict: { kind: "passed" } });
    expect(day.runpod.pods().find((pod) => pod.id === podId)?.status).toBe("RUNNING");

    const longer = await day.gate.retain({ target: { podId }, by: "mira", minutes: 15, reason: "a core dump" });
    expect(longer).toMatchObject({ kind: "kept", podId });
    expect(day.account.openReservations()).toHaveLength(3);
    const ended = await day.gate.retain({ target: { podId }, by: "mira", minutes: 0, reason: "done" });
    expect(ended).toEqual({ kind: "ended", podId });
    await day.until(head, "the closed line", () => (day.gate.store.ledgerLine(podId)?.closed_at ?? null) !== null);
    const line = day.gate.store.ledgerLine(podId);
    expect(line).toMatchObject({ outcome: "retained", attempt_id: attempt });
    await day.until(head, "settled money", () => day.account.openReservations().length === 0);
    const spent = day.gate.store.ledgerLines(10).reduce((sum, one) => sum + (one.estimate_micros ?? 0), 0);
    expect(day.account.totals()).toEqual({ spent, reserved: 0 });
    const { costs } = costLines(day.sql, REPOSITORY_ID, 0, FOREVER);
    expect(costs.find((one) => one.podId === podId)).toMatchObject({
      decisive: true,
      accepted: true,
      cost: line?.estimate_micros,
    });
  });
});
