/**
 * `POST /pod/v1/<repository id>/<attempt>/<proof|exit>`: what the start script of a rented pod says (design 3.4).
 *
 * The caller shows a nonce of its attempt. Every refusal (wrong path, wrong nonce, repeated, late, too often, unreadable) is
 * one and the same 404, so that it teaches nothing. How often an attempt may call is counted by its gate, the one place
 * that sees all of its calls.
 */
import * as z from "zod";
import type { PodWord } from "../durable-objects/gate/gate.ts";
import { podExitSchema, podProofSchema } from "../shared/runpod/pod-words.ts";
import { exactText, readBytes } from "./body.ts";
import type { AppPorts } from "./ports.ts";

export const POD_BODY_LIMIT = 4096;

export type PodAnswer = "taken" | "refused" | "no-answer";

const callSchema = z.object({
  repositoryId: z.string().regex(/^[1-9]\d{0,19}$/),
  attemptId: z.string().regex(/^[\w.-]{1,100}$/),
  what: z.enum(["proof", "exit"]),
});

/** Nonces are hex or base64url; anything longer was not made here. */
const BEARER = /^Bearer ([\w.~+/-]{16,200}=*)$/;

export async function receivePodCall(
  request: Request,
  path: { readonly repositoryId: string; readonly attemptId: string; readonly what: string },
  ports: AppPorts,
): Promise<PodAnswer> {
  const call = callSchema.safeParse(path);
  const nonce = BEARER.exec(request.headers.get("authorization") ?? "")?.[1];
  if (!call.success || nonce === undefined || !ports.settings.ok) return "refused";
  const { repositoryId, attemptId, what } = call.data;
  if (!ports.settings.value.allowedRepositories.has(repositoryId)) return "refused";
  const word = await readWord(request, what);
  if (word === null) return "refused";
  try {
    return (await ports.gate(repositoryId).podCall(attemptId, nonce, word)) ? "taken" : "refused";
  } catch (error) {
    const message = error instanceof Error ? error.message : "unknown error";
    ports.log({ event: "pod-call.gate-failed", repository: repositoryId, attempt: attemptId, message });
    return "no-answer";
  }
}

async function readWord(request: Request, what: "proof" | "exit"): Promise<PodWord | null> {
  const body = await readBytes(request, POD_BODY_LIMIT);
  const text = body.ok ? exactText(body.value) : null;
  if (text === null) return null;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return null;
  }
  if (what === "exit") {
    const exit = podExitSchema.safeParse(json);
    if (!exit.success) return null;
    const { code, reason, gpuUuid, sinceStart } = exit.data;
    return { kind: "exit", code, reason, gpuUuid: gpuUuid ?? null, upMs: upMs(sinceStart) };
  }
  const proof = podProofSchema.safeParse(json);
  if (!proof.success) return null;
  const { podId, gpuName, gpuUuid, vramMb, cuda, nvrtc, smoke, gpuCount, scriptSha256, sinceStart } = proof.data;
  return {
    kind: "proof",
    proof: {
      podId,
      gpuName,
      gpuUuid,
      vramMb,
      driverCuda: cuda,
      nvrtc,
      kernel: smoke,
      count: gpuCount,
      scriptHash: scriptSha256,
    },
    upMs: upMs(sinceStart),
  };
}

function upMs(sinceStart: number | undefined): number | null {
  return sinceStart === undefined ? null : sinceStart * 1000;
}
