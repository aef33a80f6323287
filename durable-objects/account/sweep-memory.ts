/**
 * What one sweep of the reaper leaves for the next: whether one is under way, and which pods were suspicious.
 *
 * Both are aids. A sweep that cannot ask goes on without them: it then suspects again, and the backstop needs no memory.
 */
import * as z from "zod";
import type { Observation } from "../../shared/lifecycle/reap.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "../gate/ports.ts";
import { storedJson } from "../gate/stored-json.ts";
import { keepMeta, metaOf } from "./meta.ts";

/** More suspects than this at once is a fault of another kind; the rest is suspected again at the next sweep. */
const REMEMBERED = 500;

export type Observations = Readonly<Record<string, Observation>>;

export type SweepStart =
  | {
      readonly kind: "go";
      readonly observations: Observations;
      /** The last pod that the sweep before had requests for; null when it got to all of them. */
      readonly cursor?: string | null;
    }
  | { readonly kind: "busy"; readonly since: Millis };

const observationsSchema = z.record(
  z.string(),
  z.object({ suspicion: z.enum(["run-gone", "unknown-pod"]), firstSeenAt: z.number() }),
);

export class SweepMemory {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Begins a sweep, unless another one is under way. One that has not ended after `leaseMs` is taken for dead. */
  begin(now: Millis, leaseMs: Millis): SweepStart {
    return this.#sql.transaction((): SweepStart => {
      const since = Number(metaOf(this.#sql, "sweep_since") ?? "0");
      if (since > 0 && since <= now && now - since < leaseMs) return { kind: "busy", since };
      keepMeta(this.#sql, "sweep_since", String(now));
      const cursor = metaOf(this.#sql, "sweep_cursor") ?? "";
      return { kind: "go", observations: this.#observations(), cursor: cursor === "" ? null : cursor };
    });
  }

  /** Ends the sweep and keeps its suspicions; whatever is not among them is cleared. */
  end(observations: Observations, cursor: string | null = null): void {
    const kept = Object.fromEntries(Object.entries(observations).slice(0, REMEMBERED));
    this.#sql.transaction(() => {
      keepMeta(this.#sql, "sweep_since", "0");
      keepMeta(this.#sql, "sweep_cursor", cursor ?? "");
      keepMeta(this.#sql, "sweep_observations", JSON.stringify(kept));
    });
  }

  #observations(): Observations {
    const text = metaOf(this.#sql, "sweep_observations");
    if (text === null) return {};
    const parsed = observationsSchema.safeParse(storedJson(text));
    return parsed.success ? parsed.data : {};
  }
}
