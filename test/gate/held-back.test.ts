/** The configuration changes while a request waits for the lock: what it says by then decides whether anything is bought. */
import { expect, it } from "vitest";
import { SLOW_TESTS } from "../../local/world/workflows.ts";
import { CONFIG, startLife, verdictOf } from "./life.ts";

const BASE = `${CONFIG}pre_gate: []\n`;

it.each([
  ["shadow: true", { kind: "not-required", reason: "shadow-mode" }, "CI GPU gate (shadow)"],
  ["start: approval", { kind: "awaiting-approval", reason: "awaiting-approval" }, "CI GPU gate"],
])(
  "whoever waits buys nothing once it says %s, and the next has the lock",
  async (line, word, name) => {
    const world = await startLife({ config: BASE });
    const first = world.openCode("one", { [SLOW_TESTS]: "" });
    await world.until(first, "its run", ({ state }) => state.kind === "executing");
    const second = world.openCode("two");
    await world.until(second, "the queue", ({ state }) => state.kind === "queued");
    const pods = world.runpod.pods().length;
    world.repository.commit({ files: { ".github/gpu-gate.yml": `${BASE}${line}\n` } });
    const id = world.request(first)?.id ?? "";
    world.gate.operator({ action: "cancel", requestId: id, by: "op", reason: "", micros: null });
    const ended = await world.concluded(second);
    const after = world.runpod.pods().length;
    const { holder } = world.gate.store.lock();
    const checks = world.repository.checkRuns(second).map((run) => [run.name, run.status]);
    await world.close();
    expect(verdictOf(ended)).toMatchObject(word);
    expect([after - pods, holder]).toEqual([0, null]);
    // One check, renamed where its mode says so: none is left behind that hangs.
    expect(checks.filter(([one]) => one?.startsWith("CI GPU gate"))).toEqual([[name, "completed"]]);
  },
  100_000,
);
