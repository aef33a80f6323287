/**
 * Duties of cron that are not for every tick: whose turn it is, and what each remembers from one turn to the next.
 *
 * A duty takes its turn before it works, so that overlapping ticks do not do it twice; one that dies in the middle has lost
 * a turn and nothing else. What it remembers is text of its own making, which it must be able to do without.
 */
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "../gate/ports.ts";
import { keepMeta, metaOf } from "./meta.ts";

/** `nextAt`: not before then, unless the duty asks for a turn at once. */
export type Turn =
  | { readonly due: false; readonly nextAt: Millis }
  | { readonly due: true; readonly memory: string | null };

export class Turns {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Takes the turn if the last one is `everyMs` ago or asked for another one at once. */
  take(duty: string, now: Millis, everyMs: Millis): Turn {
    return this.#sql.transaction((): Turn => {
      const last = Number(metaOf(this.#sql, `turn_at:${duty}`) ?? "0");
      // A clock that was set back must not silence a duty.
      if (last <= now && now - last < everyMs) return { due: false, nextAt: last + everyMs };
      keepMeta(this.#sql, `turn_at:${duty}`, String(now));
      return { due: true, memory: metaOf(this.#sql, `turn_memory:${duty}`) };
    });
  }

  /** Ends a turn. `more`: there is work left, which the next tick takes up. */
  keep(duty: string, memory: string, more: boolean): void {
    this.#sql.transaction(() => {
      keepMeta(this.#sql, `turn_memory:${duty}`, memory);
      if (more) keepMeta(this.#sql, `turn_at:${duty}`, "0");
    });
  }
}
