/**
 * GitHub's list of webhook deliveries: every attempt, good or not, for three days, and the order to try one again. GitHub
 * never does so by itself.
 */
import type { Millis } from "../shared/ports.ts";

export interface HookAttempt {
  readonly id: string;
  readonly guid: string;
  readonly event: string;
  readonly action: string | null;
  readonly repositoryId: string;
  readonly installationId: string;
  readonly at: Millis;
  readonly redelivery: boolean;
  readonly status: string;
}

export interface HookDelivered {
  /** When the event happened; left out where nobody asks. */
  readonly madeAt?: Millis;
  readonly guid: string;
  readonly event: string;
  readonly action: string | null;
  readonly repositoryId: string;
  readonly installationId: string;
}

const KEPT_MS = 3 * 86_400_000;

export class HookBook {
  readonly attempts: HookAttempt[] = [];
  redelivered = 0;
  /** When an attempt was last asked for. */
  askedAt: Millis = -Infinity;
  readonly #now: () => Millis;
  readonly #resend: (guid: string) => void;
  #nextId = 900_000_000_000;

  constructor(now: () => Millis, resend: (guid: string) => void) {
    this.#now = now;
    this.#resend = resend;
  }

  /** An attempt is over. */
  write(what: HookDelivered, redelivery: boolean, status: string): void {
    this.attempts.push({ ...what, id: String((this.#nextId += 1)), at: this.#now(), redelivery, status });
  }

  /** Takes the order to send an event once more; false when nobody has it any more. */
  again(id: string): boolean {
    const known = this.attempts.find((one) => one.id === id);
    if (known === undefined || this.#now() - known.at > KEPT_MS) return false;
    this.redelivered += 1;
    this.askedAt = this.#now();
    this.#resend(known.guid);
    return true;
  }
}
