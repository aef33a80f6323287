/** What is asked once for all gates: how long an answer is used again, and what is never kept. */
import { describe, expect, test } from "vitest";
import { Aged } from "../../durable-objects/account/aged.ts";
import { MarketReader } from "../../durable-objects/account/market.ts";
import type { AccountAnswer } from "../../durable-objects/gate/ports.ts";
import { err, ok } from "../../shared/result.ts";
import type { DeletePodAnswer } from "../../shared/runpod/client.ts";
import { NO_POD } from "../../shared/runpod/may-delete.ts";
import type { Offer } from "../../shared/runpod/offers.ts";
import type { RunPodFailure } from "../../shared/runpod/failure.ts";

const MINUTE = 60_000;

function tick() {
  let now = 1_000_000;
  return { now: () => now, pass: (ms: number) => (now += ms) };
}

const DOWN: RunPodFailure = {
  reason: "upstream",
  operation: "test",
  status: 503,
  requestId: null,
  retryAfterMs: null,
  windows: [],
  details: [],
};

const offer = (usdPerHour: number): Offer => ({
  gpuId: "NVIDIA RTX A4000",
  memoryGb: 16,
  usdPerHour,
  stock: "HIGH",
  secure: true,
  cudaVersions: ["12.8"],
});

/** A market whose three sources answer what is set, and count how often they are asked. */
function market() {
  const clock = tick();
  const asked = { contract: 0, catalog: 0, prices: 0 };
  const up = { contract: true, catalog: true, prices: true };
  const key = { asked: [] as string[], says: { kind: "not-found" } as DeletePodAnswer };
  const reader = new MarketReader(
    {
      openApiDocument: () => {
        asked.contract += 1;
        return Promise.resolve(up.contract ? ok({ openapi: "3.1.0", round: asked.contract }) : err(DOWN));
      },
      catalogGpus: () => {
        asked.catalog += 1;
        return Promise.resolve(up.catalog ? ok([offer(0.1)]) : err(DOWN));
      },
      publicPrices: () => {
        asked.prices += 1;
        return Promise.resolve(up.prices ? ok([offer(0.2)]) : err(DOWN));
      },
      deletePod: (podId) => {
        key.asked.push(podId);
        return Promise.resolve(key.says);
      },
    },
    clock,
  );
  return { clock, asked, up, key, read: (maxAgeMs = 5 * MINUTE) => reader.read(maxAgeMs) };
}

describe("the market", () => {
  test("is asked once while it is young, however many gates ask", async () => {
    const { asked, read, clock } = market();
    await Promise.all([read(), read(), read()]);
    clock.pass(5 * MINUTE - 1);
    expect(await read()).toMatchObject({ ok: true, value: { offersFrom: "catalog" } });
    expect(asked).toEqual({ contract: 1, catalog: 1, prices: 0 });
    clock.pass(1);
    await read();
    expect(asked).toMatchObject({ contract: 2, catalog: 2 });
  });

  test("a repository with a shorter limit asks again, and the others use its answer", async () => {
    const { asked, read, clock } = market();
    await read();
    clock.pass(2 * MINUTE);
    await read(MINUTE);
    expect(asked.contract).toBe(2);
    clock.pass(4 * MINUTE);
    expect(await read()).toMatchObject({
      ok: true,
      value: { contract: JSON.stringify({ openapi: "3.1.0", round: 2 }) },
    });
    expect(asked.contract).toBe(2);
  });

  test("no contract is no market, and the failure is not kept", async () => {
    const { up, read } = market();
    up.contract = false;
    expect(await read()).toEqual({ ok: false, why: "RunPod's contract: upstream" });
    up.contract = true;
    expect(await read()).toMatchObject({ ok: true });
  });

  test("without a catalog the public prices serve, and the catalog is asked again at the next look", async () => {
    const { up, asked, read } = market();
    up.catalog = false;
    expect(await read()).toMatchObject({ ok: true, value: { offersFrom: "public", offers: [{ usdPerHour: 0.2 }] } });
    up.catalog = true;
    expect(await read()).toMatchObject({ ok: true, value: { offersFrom: "catalog", offers: [{ usdPerHour: 0.1 }] } });
    expect(asked).toEqual({ contract: 1, catalog: 2, prices: 1 });
  });

  test("without any prices the reviewed order stands alone", async () => {
    const { up, read } = market();
    up.catalog = false;
    up.prices = false;
    expect(await read()).toMatchObject({ ok: true, value: { offers: null, offersFrom: null } });
  });
});

describe("kept answers", () => {
  const answer = (value: string): Promise<AccountAnswer<string>> => Promise.resolve({ ok: true, value });

  test("are bounded: the one read first makes room", async () => {
    const aged = new Aged<string>(tick(), 2);
    for (const key of ["a", "b", "c"]) await aged.get(key, MINUTE, () => answer(key));
    expect(await aged.get("c", MINUTE, () => answer("again"))).toEqual({ ok: true, value: "c" });
    expect(await aged.get("a", MINUTE, () => answer("again"))).toEqual({ ok: true, value: "again" });
  });

  test("are as old as their request, not as its answer", async () => {
    const clock = tick();
    const aged = new Aged<string>(clock, 2);
    await aged.get("a", MINUTE, () => {
      clock.pass(MINUTE);
      return answer("slow");
    });
    expect(await aged.get("a", MINUTE, () => answer("new"))).toEqual({ ok: true, value: "new" });
  });

  test("of a clock that went back are not used", async () => {
    const clock = tick();
    const aged = new Aged<string>(clock, 2);
    await aged.get("a", MINUTE, () => answer("future"));
    clock.pass(-10 * MINUTE);
    expect(await aged.get("a", MINUTE, () => answer("now"))).toEqual({ ok: true, value: "now" });
  });
});

describe("N18: a key that may not delete", () => {
  const failing = (reason: RunPodFailure["reason"]): DeletePodAnswer => ({
    kind: "failure",
    failure: { ...DOWN, reason },
  });

  test("buys nothing, and says so; asked about a pod that nobody has", async () => {
    const { key, read } = market();
    key.says = failing("forbidden");
    expect(await read()).toMatchObject({ ok: true, value: { keyRefused: expect.stringContaining("may delete pods") } });
    expect(key.asked).toEqual([NO_POD]);
    // A key that was given more rights in the meantime is believed at the next look.
    key.says = { kind: "not-found" };
    expect(await read()).toMatchObject({ ok: true, value: { keyRefused: null } });
  });

  test("is not what an answer shows that says nothing of the key: then nothing is known, and it is asked again", async () => {
    const { key, read } = market();
    key.says = failing("upstream");
    expect(await read()).toMatchObject({ ok: false, why: expect.stringContaining("upstream") });
    key.says = failing("invalid");
    expect(await read()).toMatchObject({ ok: true, value: { keyRefused: null } });
  });

  test("is looked for once an hour, however often prices are read", async () => {
    const { key, read, clock } = market();
    for (let minute = 0; minute < 60; minute += 5) {
      await read(MINUTE);
      clock.pass(5 * MINUTE);
    }
    expect(key.asked).toHaveLength(1);
    await read();
    expect(key.asked).toHaveLength(2);
  });
});
