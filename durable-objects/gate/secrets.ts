/**
 * The secrets of attempts under way: memory only, never stored. If the object is evicted between minting and creating, the
 * attempt is given up and a new runner is minted; nothing has been bought then.
 */
export interface AttemptSecrets {
  readonly jitConfig: string;
  readonly proofNonce: string;
  readonly exitNonce: string;
}

export class Secrets {
  readonly #kept = new Map<string, AttemptSecrets>();

  keep(attemptId: string, secrets: AttemptSecrets): void {
    this.#kept.set(attemptId, secrets);
  }

  of(attemptId: string): AttemptSecrets | null {
    return this.#kept.get(attemptId) ?? null;
  }

  /** After the pod was bought, or the attempt ended, nothing here is needed any more. */
  forget(attemptId: string): void {
    this.#kept.delete(attemptId);
  }
}
