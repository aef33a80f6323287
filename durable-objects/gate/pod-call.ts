/**
 * A call of the pod's start script. The nonce is compared by hash; wrong, repeated or out of place is one and the same
 * answer, so that a caller learns nothing.
 */
import type { GateEvent } from "../../shared/lifecycle/decide.ts";
import { proofDeclined } from "../../shared/lifecycle/judge.ts";
import type { Proof } from "../../shared/lifecycle/model.ts";
import type { Millis } from "../../shared/ports.ts";
import { sameDigest } from "../../shared/same-secret.ts";
import type { Steps } from "./steps.ts";
import type { Store } from "./store.ts";

/** `upMs`: how long its container had been up when it called, by its own word; null or left out: not said. */
export type PodWord =
  | { readonly kind: "proof"; readonly proof: Omit<Proof, "at">; readonly upMs?: Millis | null }
  | {
      readonly kind: "exit";
      readonly code: number | null;
      readonly reason?: string | null;
      readonly gpuUuid?: string | null;
      readonly upMs?: Millis | null;
    };

/** Which word a nonce with this hash may say for an attempt; null: none. */
export function whoseNonce(
  known: { readonly proofHash: string | null; readonly exitHash: string | null } | null,
  nonceHash: string,
): PodWord["kind"] | null {
  if (known === null) return null;
  if (known.proofHash !== null && sameDigest(nonceHash, known.proofHash)) return "proof";
  return known.exitHash !== null && sameDigest(nonceHash, known.exitHash) ? "exit" : null;
}

/** Inside a transaction of the caller's. False: it is not exactly the expected call, or its proof is not good enough. */
export function takePodCall(
  attemptId: string,
  nonceHash: string,
  word: PodWord,
  store: Store,
  steps: Steps,
  now: Millis,
): boolean {
  const known = store.attempt(attemptId);
  if (known === null || whoseNonce(known, nonceHash) !== word.kind) return false;
  const event: GateEvent =
    word.kind === "proof"
      ? {
          kind: "proof",
          attemptId,
          proof: { ...word.proof, at: now },
          knownBad: steps.knownBad(known.requestId, word.proof.gpuUuid),
          upMs: word.upMs ?? null,
        }
      : {
          kind: "exit",
          attemptId,
          code: word.code,
          reason: word.reason ?? null,
          gpuUuid: word.gpuUuid ?? null,
          upMs: word.upMs ?? null,
        };
  const step = steps.apply(known.requestId, event);
  if (step === null || step.ignored !== null) return false;
  // A proof that is not good enough is kept, and answered like none: the runner must not start on that machine.
  const state = step.request.state;
  const attempt = state.kind === "provisioning" ? state.attempt : null;
  return word.kind !== "proof" || attempt === null || proofDeclined(attempt) === null;
}
