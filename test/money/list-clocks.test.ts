/** The account's list of pods for a gate whose clock is another: what began before must not pass for what began after. */
import { describe, expect, it } from "vitest";
import { Account } from "../../durable-objects/account/account.ts";
import { err, ok } from "../../shared/result.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import { nodeSql } from "../support/node-sql.ts";

const T0 = Date.UTC(2026, 11, 1);

/** An account whose clock is ahead of the asker's by so much; what it is told takes `wayMs` to arrive. */
function accountAhead(aheadMs: number, wayMs = 0) {
  let now = T0;
  let lists = 0;
  let refused = false;
  const runpod = {
    listPods: async () => {
      if (refused) return err({ reason: "rate-limited", retryAfterMs: 5_000 });
      lists += 1;
      return ok({ startedAtMs: now + aheadMs, complete: true, pods: [] });
    },
  } as unknown as RunPodClient;
  const clock = { now: () => now + aheadMs };
  const account = new Account({ sql: nodeSql(), clock, runpod, monthlyCapMicros: 1 });
  const ask = async (notBefore: number) => {
    const askedAt = now;
    now += wayMs;
    return account.listPods(notBefore, askedAt);
  };
  return { ask, pass: (ms: number) => (now += ms), lists: () => lists, refuse: () => (refused = true), now: () => now };
}

describe.each([-3_000, 0, 3_000])("the list of an account whose clock is ahead by %i ms", (ahead) => {
  it("is made anew where the last one began before the instant that is asked for, and shared where it did not", async () => {
    const one = accountAhead(ahead);
    expect(await one.ask(T0)).toMatchObject({ ok: true, value: { startedAt: T0 } });
    one.pass(500);
    expect(await one.ask(T0)).toMatchObject({ value: { startedAt: T0 } });
    expect(one.lists()).toBe(1);
    expect(await one.ask(T0 + 1)).toMatchObject({ value: { startedAt: T0 + 500 } });
    expect(one.lists()).toBe(2);
  });

  it("never seems to have begun later than it did, however long the call was on its way", async () => {
    const one = accountAhead(ahead, 2_000);
    const began = T0 + 2_000;
    expect(await one.ask(T0)).toMatchObject({ value: { startedAt: began - 2_000 } });
    // Begun two seconds ago by the account; for all that the asker knows it may be four.
    expect(await one.ask(T0 + 1_000)).toMatchObject({ value: { startedAt: T0 + 2_000 } });
    expect(one.lists()).toBe(2);
  });

  it("tells by the asker's clock when RunPod's quota is back", async () => {
    const one = accountAhead(ahead);
    one.refuse();
    expect(await one.ask(T0)).toMatchObject({ ok: false, retryAt: T0 + 5_000 });
  });
});
