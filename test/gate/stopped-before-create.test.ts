/** A word to stop that comes while the create's last look is under way: the request pays for nothing any more. */
import { expect, it } from "vitest";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, verdictOf, type Life } from "./life.ts";

it("told to end while the pull request is looked at before the create: nothing is rented", async (test) => {
  let life: Life | null = null;
  let told = false;
  let head = "";
  const creates: string[] = [];
  const fetch = (next: FetchLike): FetchLike => {
    return async (input, init) => {
      if (init?.method === "POST" && new URL(input).pathname === "/v2/pods") creates.push(input);
      const request = told || life === null ? null : life.request(head);
      const { state } = request ?? {};
      if (life !== null && request !== null && state?.kind === "provisioning" && state.step === "create") {
        told = true;
        const word = { action: "cancel", by: "ops", reason: "not wanted", micros: null } as const;
        expect(life.gate.operator({ ...word, requestId: request.id })).toMatchObject({ done: true });
      }
      return next(input, init);
    };
  };
  const world = await startLife({ fetch });
  life = world;
  test.onTestFinished(() => world.close());
  head = world.openCode("matmul");
  const request = await world.concluded(head);

  expect(verdictOf(request)).toMatchObject({ kind: "cancelled", reason: "cancelled-by-operator" });
  expect(told).toBe(true);
  expect(creates).toEqual([]);
  expect(world.runpod.pods()).toEqual([]);
  expect(request.counts.pods).toBe(0);
  // What was set aside for it is given back on both sides, and the lock is free.
  expect(world.account.totals()).toEqual({ spent: 0, reserved: 0 });
  expect(world.gate.store.lock().holder).toBeNull();
});
