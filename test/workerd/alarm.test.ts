/** What only the runtime shows of the gate's alarm: it is armed for the next task, and a lost one is taken up by cron. */
import { env } from "cloudflare:workers";
import { reset, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import { durableAlarm } from "../../durable-objects/platform.ts";
import type { RepositoryGate } from "../../durable-objects/repository-gate.ts";

afterEach(reset);

describe("the object's alarm", () => {
  it("is set again for the same instant once it has fired or was lost", async () => {
    const stub = env.REPOSITORY_GATE.getByName("101");
    await runInDurableObject(stub, async (_gate: RepositoryGate, state) => {
      const far = Date.now() + 3_600_000;
      const alarm = durableAlarm(state.storage);
      alarm.set(far);
      expect(await state.storage.getAlarm()).toBe(far);
      await state.storage.deleteAlarm();
      alarm.set(far);
      expect(await state.storage.getAlarm()).toBeNull();
      alarm.forget();
      alarm.set(far);
      expect(await state.storage.getAlarm()).toBe(far);
    });
  });
});
