import { describe, expect, it } from "vitest";
import type { PodWord } from "../../durable-objects/gate/gate.ts";
import { err } from "../../shared/result.ts";
import type { AppPorts } from "../../worker/ports.ts";
import { ask, gate, ports } from "./ports.ts";

const NONCE = "0123456789abcdef0123456789abcdef";
const NOTHING = "404 There is nothing at this address.";
const PROOF = {
  podId: "pod1",
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

interface Call {
  readonly path?: string;
  readonly body?: unknown;
  readonly authorization?: string | null;
}

async function call(given: AppPorts, { path = "101/a1/proof", body = PROOF, authorization }: Call = {}) {
  const bearer = authorization === undefined ? `Bearer ${NONCE}` : authorization;
  return ask(given, `/pod/v1/${path}`, {
    method: "POST",
    headers: bearer === null ? {} : { authorization: bearer },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

/** Ports whose gate takes every call and writes it down. */
function listening() {
  const heard: { id: string; attemptId: string; nonce: string; word: PodWord }[] = [];
  const given = ports({
    gate: (id) =>
      gate({
        podCall: async (attemptId, nonce, word) => {
          heard.push({ id, attemptId, nonce, word });
          return true;
        },
      }),
  });
  return { given, heard };
}

describe("a pod's call", () => {
  it("hands the proof to the gate in the gate's words", async () => {
    const { given, heard } = listening();
    const answer = await call(given);
    expect([answer.status, await answer.text()]).toEqual([204, ""]);
    expect(heard).toEqual([
      {
        id: "101",
        attemptId: "a1",
        nonce: NONCE,
        word: {
          kind: "proof",
          proof: {
            podId: "pod1",
            gpuName: "NVIDIA RTX A4000",
            gpuUuid: "GPU-1b2c",
            vramMb: 16_376,
            driverCuda: "12.8",
            nvrtc: "12.6",
            kernel: "passed",
            count: 1,
            scriptHash: "e".repeat(64),
          },
          upMs: null,
        },
      },
    ]);
  });

  it("hands over an exit with its code", async () => {
    const { given, heard } = listening();
    expect((await call(given, { path: "101/a1/exit", body: { reason: "runner-exited", code: 3 } })).status).toBe(204);
    expect(heard.map((one) => one.word)).toMatchObject([{ kind: "exit", code: 3, reason: "runner-exited" }]);
  });

  it("hands over how long the container was up, in milliseconds, and nothing that cannot be", async () => {
    const { given, heard } = listening();
    const exit = { reason: "smoke-failed", code: 1 };
    await call(given, { body: { ...PROOF, sinceStart: 12 } });
    await call(given, { path: "101/a1/exit", body: { ...exit, sinceStart: 7 } });
    expect(heard.map((one) => one.word)).toMatchObject([{ upMs: 12_000 }, { upMs: 7_000 }]);
    for (const sinceStart of [-1, 0.5, "3", 1e9]) {
      expect((await call(given, { body: { ...PROOF, sinceStart } })).status).toBe(404);
    }
  });

  it("takes fields that a newer start script adds", async () => {
    expect((await call(listening().given, { body: { ...PROOF, serial: "x" } })).status).toBe(204);
  });

  it.each<[string, Call]>([
    ["a repository that is not served", { path: "102/a1/proof" }],
    ["a repository id that is no id", { path: "0101/a1/proof" }],
    ["a word that pods do not say", { path: "101/a1/log" }],
    ["no nonce", { authorization: null }],
    ["a nonce of another scheme", { authorization: `Basic ${NONCE}` }],
    ["a nonce too short to be one", { authorization: "Bearer abc" }],
    ["a body that is no JSON", { body: "{" }],
    ["a body of another shape", { body: { ...PROOF, gpuUuid: "nothing" } }],
    ["an exit told as a proof", { body: { reason: "terminated", code: 1 } }],
    ["a body over 4 KiB", { body: { ...PROOF, padding: "x".repeat(4096) } }],
  ])("%s is the same 404, and no gate is asked", async (_what, given) => {
    const { given: listeners, heard } = listening();
    expect(await said(await call(listeners, given))).toBe(NOTHING);
    expect(heard).toEqual([]);
  });

  it("the gate's refusal is that 404 too, and so is a path with more to it", async () => {
    expect(await said(await call(ports({ gate: () => gate({ podCall: async () => false }) })))).toBe(NOTHING);
    expect(await said(await call(listening().given, { path: "101/a1/proof/more" }))).toBe(NOTHING);
    expect(await said(await call(ports({ settings: err(["DEPLOYMENT is missing."]) })))).toBe(NOTHING);
  });

  it("a body of exactly 4 KiB is read", async () => {
    const base = JSON.stringify({ ...PROOF, padding: "" });
    const padding = "x".repeat(4096 - base.length);
    expect((await call(listening().given, { body: { ...PROOF, padding } })).status).toBe(204);
    expect((await call(listening().given, { body: { ...PROOF, padding: `${padding}x` } })).status).toBe(404);
  });

  it("a gate that does not answer is 503: the script calls again", async () => {
    const given = ports({ gate: () => gate({ podCall: () => Promise.reject(new Error("reset")) }) });
    expect((await call(given)).status).toBe(503);
    expect(JSON.stringify(given.logged)).not.toContain(NONCE);
  });
});

async function said(answer: Response): Promise<string> {
  return `${answer.status} ${await answer.text()}`;
}
