/**
 * What this isolate still knows of duties that are not due: whoever keeps the turns need not be asked every minute. An aid
 * only. A new isolate asks again, and what somebody else changed meanwhile is met within ten minutes.
 */
import type { BillingTurn } from "../durable-objects/account/account.ts";
import type { Clock, Millis } from "../shared/ports.ts";
import type { BooksPorts, TurnsPort } from "./ports.ts";

/** An answer is believed for so long at most: a duty may ask for another turn at once from elsewhere. */
const BELIEVED_MS = 600_000;

interface Heard<Answer> {
  readonly answer: Answer;
  readonly from: Millis;
  readonly until: Millis;
}

/** Answers "not due" by what they were about. */
class Memory<Answer> {
  readonly #heard = new Map<string, Heard<Answer>>();

  /** Null: nothing is known for this instant. A clock that was set back knows nothing. */
  at(name: string, now: Millis): Answer | null {
    const heard = this.#heard.get(name);
    return heard !== undefined && heard.from <= now && now < heard.until ? heard.answer : null;
  }

  keep(name: string, answer: Answer, now: Millis, nextAt: Millis): void {
    this.#heard.set(name, { answer, from: now, until: Math.min(nextAt, now + BELIEVED_MS) });
  }

  forget(name: string): void {
    this.#heard.delete(name);
  }
}

/** One for each isolate; what is wrapped may be made anew for every tick. */
export class NotDue {
  readonly #turns = new Memory<{ readonly due: false; readonly nextAt: Millis }>();
  readonly #bills = new Memory<BillingTurn>();

  /** The same turns, asked only when they may be due. */
  turns(turns: TurnsPort, clock: Clock): TurnsPort {
    const memory = this.#turns;
    return {
      take: async (duty, everyMs) => {
        const now = clock.now();
        const known = memory.at(duty, now);
        if (known !== null) return known;
        const turn = await turns.take(duty, everyMs);
        const nextAt = turn.due ? now + everyMs : turn.nextAt;
        memory.keep(duty, { due: false, nextAt }, now, nextAt);
        return turn;
      },
      keep: async (duty, remembered, more) => {
        await turns.keep(duty, remembered, more);
        // Behind the answer: a tick that ran meanwhile heard what was so before.
        if (more) memory.forget(duty);
      },
    };
  }

  /** The same account, asked for the night's turn only when it may be due. */
  billing(account: BooksPorts["account"], clock: Clock): BooksPorts["account"] {
    const memory = this.#bills;
    return {
      ...account,
      takeBillingTurn: async (day, retryMs) => {
        const now = clock.now();
        const known = memory.at(day, now);
        if (known !== null) return known;
        const turn = await account.takeBillingTurn(day, retryMs);
        if (!turn.due) memory.keep(day, turn, now, turn.nextAt);
        return turn;
      },
    };
  }
}
