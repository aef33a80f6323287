/**
 * What one sweep of the reaper leaves for the next: whether one is under way, which pods were suspicious, and which pods it
 * had deleted that their gates must still be told of.
 *
 * All three are aids. A sweep that cannot ask goes on without them: it then suspects again, and the backstop needs no memory.
 */
import * as z from "zod";
import type { Observation } from "../../shared/lifecycle/reap.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Sql } from "../gate/ports.ts";
import { readStored, storedJson } from "../gate/stored-json.ts";
import { dropMeta, keepMeta, metaOf, metasUnder } from "./meta.ts";

/** More suspects than this at once is a fault of another kind; the rest is suspected again at the next sweep. */
const REMEMBERED = 500;
/** Removals owed at once: an hour of nothing but deletions from here. What finds no room is told to whoever asked for it. */
export const OWED_AT_MOST = 500;
/** A row of its own for each: a damaged one costs the others nothing, and its key still names the pod. */
const OWED = "owed:";

export type Observations = Readonly<Record<string, Observation>>;

const owedSchema = z.object({
  podId: z.string(),
  repositoryId: z.string(),
  /** As the pod's tags named it; null where its id alone was known. */
  attemptId: z.string().nullable(),
  why: z.string(),
  /** Since when it was paid, as far as anybody knew. */
  createdAt: z.number().nullable(),
  /** USD; null when nobody was told one. */
  pricePerHour: z.number().nullable(),
  /** When its deletion was asked for. */
  orderedAt: z.number(),
  /** RunPod's 204, or a complete list that no longer showed it; null: neither was seen yet. */
  goneAt: z.number().nullable(),
});

/** A pod whose deletion a sweep ordered, and whose gate has not taken note of it. */
export type OwedRemoval = Readonly<z.infer<typeof owedSchema>>;

/**
 * A removal with what an earlier order of the same pod knew better: a pod that has stopped shows no price, a damaged time is
 * none, and an answer counts until there is a newer one.
 */
export function withKnown(removal: OwedRemoval, known: OwedRemoval | undefined): OwedRemoval {
  if (known === undefined) return removal;
  const born = Math.min(removal.createdAt ?? Infinity, known.createdAt ?? Infinity);
  return {
    ...removal,
    attemptId: removal.attemptId ?? known.attemptId,
    createdAt: born === Infinity ? null : born,
    pricePerHour: removal.pricePerHour ?? known.pricePerHour,
    goneAt: removal.goneAt ?? known.goneAt,
  };
}

export type SweepStart =
  | {
      readonly kind: "go";
      readonly observations: Observations;
      /** The last pod that the sweep before had requests for; null when it got to all of them. */
      readonly cursor?: string | null;
      readonly owed?: readonly OwedRemoval[];
      /** Pods whose remembered removal does not read. */
      readonly unreadable?: readonly string[];
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
      const observations = this.#observations();
      return { kind: "go", observations, cursor: cursor === "" ? null : cursor, ...this.#owed() };
    });
  }

  /**
   * Remembers a deletion before it is ordered, so that it is known whatever becomes of the sweep. What is known of the
   * same pod already and is not told now stays. False: there is no room, and nothing was stored.
   */
  owe(removal: OwedRemoval): boolean {
    return this.#sql.transaction(() => this.#keep(removal));
  }

  /**
   * Ends the sweep and keeps its suspicions; whatever is not among them is cleared. Of the removals that are owed only the
   * named ones change: a sweep that was not told what is remembered clears nothing. Gives the pods that found no room.
   */
  end(
    observations: Observations,
    cursor: string | null = null,
    settled: readonly string[] = [],
    owed: readonly OwedRemoval[] = [],
  ): readonly string[] {
    const kept = Object.fromEntries(Object.entries(observations).slice(0, REMEMBERED));
    return this.#sql.transaction(() => {
      keepMeta(this.#sql, "sweep_since", "0");
      keepMeta(this.#sql, "sweep_cursor", cursor ?? "");
      keepMeta(this.#sql, "sweep_observations", JSON.stringify(kept));
      for (const podId of settled) dropMeta(this.#sql, OWED + podId);
      return owed.filter((removal) => !this.#keep(removal)).map((removal) => removal.podId);
    });
  }

  /** When a pod was gone whose removal is still owed to its gate; null: nothing is known of it. */
  goneSince(podId: string): Millis | null {
    return readOwed(metaOf(this.#sql, OWED + podId))?.goneAt ?? null;
  }

  #keep(removal: OwedRemoval): boolean {
    const key = OWED + removal.podId;
    const stored = metaOf(this.#sql, key);
    if (stored === null && metasUnder(this.#sql, OWED).length >= OWED_AT_MOST) return false;
    keepMeta(this.#sql, key, JSON.stringify(withKnown(removal, readOwed(stored))));
    return true;
  }

  #owed(): { readonly owed: readonly OwedRemoval[]; readonly unreadable: readonly string[] } {
    const owed: OwedRemoval[] = [];
    const unreadable: string[] = [];
    for (const { key, value } of metasUnder(this.#sql, OWED)) {
      const read = readStored(owedSchema, value);
      if (read.ok) owed.push(read.value);
      else unreadable.push(key.slice(OWED.length));
    }
    return { owed, unreadable };
  }

  #observations(): Observations {
    const text = metaOf(this.#sql, "sweep_observations");
    if (text === null) return {};
    const parsed = observationsSchema.safeParse(storedJson(text));
    return parsed.success ? parsed.data : {};
  }
}

/** Undefined: nothing stands there, or nothing that reads. */
function readOwed(stored: string | null): OwedRemoval | undefined {
  const read = stored === null ? null : readStored(owedSchema, stored);
  return read?.ok === true ? read.value : undefined;
}
