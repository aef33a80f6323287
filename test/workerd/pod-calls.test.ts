/** A pod's calls from the Worker through to the gate's database. */
import { reset, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Store } from "../../durable-objects/gate/store.ts";
import { durableSql } from "../../durable-objects/platform.ts";
import { ATTEMPT, POD, request } from "../worker/request.ts";
import { gateStub, inGate, utf8 } from "./worker.ts";

const PROOF_NONCE = "11112222333344445555666677778888";
const EXIT_NONCE = "aaaabbbbccccddddeeeeffff00001111";
const PROOF = {
  podId: POD.id,
  gpuName: "NVIDIA RTX A4000",
  gpuUuid: "GPU-1b2c",
  gpuCount: 1,
  vramMb: 16_376,
  driver: "570.86.15",
  cuda: "12.8",
  nvrtc: "12.6",
  nvrtcLoaded: "12.6",
  smoke: "passed",
  scriptSha256: "e".repeat(64),
};

beforeEach(() => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

async function hash(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A gate with a bought pod that has not spoken yet. */
async function bought(): Promise<void> {
  const attempt = {
    ...ATTEMPT,
    // A proof is judged when it comes: without a candidate no GPU would be the one that was asked for.
    candidate: { name: "a4000", tier: "cost-preferred", acceptedIds: [PROOF.gpuName], price: 0.25 },
    pod: POD,
    paidFrom: Date.now(),
    createSentAt: Date.now(),
    proofHash: await hash(PROOF_NONCE),
    exitHash: await hash(EXIT_NONCE),
  };
  await runInDurableObject(gateStub(), (_gate, state) => {
    new Store(durableSql(state.storage)).saveRequest(request(attempt, "start"));
  });
}

async function call(what: "proof" | "exit", nonce: string, body: unknown, path = `101/${ATTEMPT.id}`): Promise<string> {
  const answer = await exports.default.fetch(
    new Request(`https://gate.test/pod/v1/${path}/${what}`, {
      method: "POST",
      headers: { authorization: `Bearer ${nonce}` },
      body: JSON.stringify(body),
    }),
  );
  return `${answer.status} ${await answer.text()}`;
}

const NOTHING = "404 There is nothing at this address.";

describe("a pod's calls", () => {
  it("the proof is taken once and stored; said again it is the same 404 as a wrong nonce", async () => {
    await bought();
    expect(await call("proof", EXIT_NONCE, PROOF)).toBe(NOTHING);
    expect(await call("proof", PROOF_NONCE, PROOF)).toBe("204 ");
    const [row] = await inGate("SELECT record FROM requests");
    expect(JSON.parse(String(row?.["record"]))).toMatchObject({
      state: { attempt: { proof: { podId: POD.id, gpuUuid: "GPU-1b2c", driverCuda: "12.8", count: 1 } } },
    });
    expect(await call("proof", PROOF_NONCE, PROOF)).toBe(NOTHING);
  });

  it("a proof of another GPU than the one asked for is the same 404: the runner must not start there", async () => {
    await bought();
    expect(await call("proof", PROOF_NONCE, { ...PROOF, gpuName: "NVIDIA H100 80GB HBM3" })).toBe(NOTHING);
  });

  it("the exit is taken with its own nonce", async () => {
    await bought();
    expect(await call("exit", PROOF_NONCE, { reason: "runner-exited", code: 0 })).toBe(NOTHING);
    expect(await call("exit", EXIT_NONCE, { reason: "runner-exited", code: 0 })).toBe("204 ");
  });

  it("an attempt nobody began is the same 404", async () => {
    await bought();
    expect(await call("proof", PROOF_NONCE, PROOF, "101/a999")).toBe(NOTHING);
  });

  it("strangers who know an attempt's id and no nonce, however often they call, keep no pod from its proof", async () => {
    await bought();
    for (let guess = 10; guess < 40; guess += 1) {
      expect(await call("proof", `000000000000000000000000000000${guess}`, PROOF)).toBe(NOTHING);
    }
    expect(await call("proof", PROOF_NONCE, PROOF)).toBe("204 ");
  });

  it("after ten calls in a minute with the right nonce the next one is too many, and only with that nonce", async () => {
    await bought();
    for (let count = 0; count < 10; count += 1) expect(await call("proof", EXIT_NONCE, PROOF)).toBe(NOTHING);
    expect(await call("exit", EXIT_NONCE, { reason: "runner-exited", code: 0 })).toBe(NOTHING);
    expect(await call("proof", PROOF_NONCE, PROOF)).toBe("204 ");
  });
});
