/** What only the runtime shows of the gate's alarm: it is armed for the next task, and a lost one is taken up by cron. */
import { env } from "cloudflare:workers";
import {
  createExecutionContext,
  createScheduledController,
  reset,
  runInDurableObject,
  waitOnExecutionContext,
} from "cloudflare:test";
import { afterEach, describe, expect, it, vi } from "vitest";
import { durableAlarm } from "../../durable-objects/platform.ts";
import type { RepositoryGate } from "../../durable-objects/repository-gate.ts";
import worker from "../../worker/index.ts";
import { deliver, gateStub, inGate, pullRequest } from "./worker.ts";

/** What is waited for comes at once; this is for a machine that is busy with other things. */
const PATIENCE = { timeout: 20_000 };

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

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

async function tick(): Promise<void> {
  const context = createExecutionContext();
  await worker.scheduled(createScheduledController({ cron: "* * * * *", scheduledTime: new Date() }), env);
  await waitOnExecutionContext(context);
}

const alarmOf = () => runInDurableObject(gateStub(), (_gate: RepositoryGate, state) => state.storage.getAlarm());
const tasks = () => inGate("SELECT kind, tries, due_at FROM tasks WHERE lane = 'main'");

describe("N154: an alarm that is lost behind the gate's back", () => {
  it("costs time until the next tick and nothing else: the overdue work is taken up, the alarm armed again", async () => {
    vi.spyOn(console, "log").mockImplementation(() => undefined);
    // GitHub does not answer, so that the request stays where it is: looked at, and to be looked at again later.
    const asked: string[] = [];
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
      asked.push(new URL(input instanceof Request ? input.url : input).host);
      return new Response("down", { status: 503 });
    });
    await deliver(JSON.stringify(pullRequest()));
    // Between two looks, with nothing under way that would arm it again: there the alarm is lost, and time passes.
    await vi.waitFor(
      () =>
        runInDurableObject(gateStub(), async (_gate: RepositoryGate, state) => {
          expect(asked).toContain("github.test");
          const rows = (query: string) => state.storage.sql.exec(query).toArray();
          expect(rows("SELECT kind FROM tasks WHERE lane = 'main'")).toEqual([{ kind: "authorize" }]);
          expect(rows(`SELECT kind FROM tasks WHERE started_at IS NOT NULL OR due_at < ${Date.now()}`)).toEqual([]);
          expect(rows("SELECT seq FROM audit WHERE hash IS NULL")).toEqual([]);
          state.storage.sql.exec("UPDATE tasks SET due_at = ?, tries = 0", Date.now() - 600_000);
          await state.storage.deleteAlarm();
        }),
      PATIENCE,
    );
    expect(await alarmOf()).toBeNull();
    asked.length = 0;
    await tick();
    await vi.waitFor(async () => {
      expect(asked).toContain("github.test");
      const [task] = await tasks();
      expect(Number(task?.["due_at"])).toBeGreaterThan(Date.now() - 60_000);
      expect(await alarmOf()).not.toBeNull();
    }, PATIENCE);
  });
});
