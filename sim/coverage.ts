/** What was reached: states and steps, the ways between them, tasks, reasons, faults, calls. */
import * as z from "zod";
import { REASON_CODES } from "../shared/audit/reasons.ts";
import { stateKinds } from "../shared/lifecycle/model.ts";
import { onRepeat } from "../shared/lifecycle/tasks.ts";
import type { SqlValue } from "../durable-objects/gate/ports.ts";
import type { RefusalReason } from "../shared/oidc/refusal.ts";
import { FAULT_KINDS } from "./faults.ts";
import { WAYS } from "./ways.ts";

type Counts = Map<string, number>;

/** What is counted, each by its names. */
const COUNTED = ["states", "transitions", "tasks", "reasons", "acts", "calls", "faults", "refusals", "notes"] as const;

type Counted = (typeof COUNTED)[number];

/** How often each was met, as `Coverage.counts` gives it. */
export const coverageSchema = z.object({
  concluded: z.number(),
  met: z.record(z.enum(COUNTED), z.record(z.string(), z.number())),
});

const bump = (counts: Counts, name: string, by = 1): void => void counts.set(name, (counts.get(name) ?? 0) + by);

/** Every way in which a token can be refused. */
const REFUSALS: Readonly<Record<RefusalReason, true>> = {
  "no-token": true,
  malformed: true,
  algorithm: true,
  "unknown-key": true,
  signature: true,
  issuer: true,
  audience: true,
  expired: true,
  "not-yet-valid": true,
  "too-old": true,
  replayed: true,
  "repository-not-served": true,
  repository: true,
  owner: true,
  workflow: true,
  "workflow-never-opens": true,
  event: true,
  ref: true,
  "runner-environment": true,
  "run-attempt": true,
  "run-unknown": true,
  "run-differs": true,
  "run-finished": true,
  actor: true,
  fork: true,
};

/** Everything that is to be met, by its kind. */
const NAMES = {
  states: stateKinds as readonly string[],
  transitions: WAYS,
  tasks: Object.keys(onRepeat),
  reasons: REASON_CODES as readonly string[],
  refusals: Object.keys(REFUSALS),
  faults: FAULT_KINDS,
};

/** How many names of each kind there are to be met. */
export const namesToMeet: Readonly<Record<string, number>> = Object.fromEntries(
  Object.entries(NAMES).map(([kind, names]) => [kind, names.length]),
);

export class Coverage implements Readonly<Record<Counted, Counts>> {
  readonly states: Counts = new Map();
  readonly transitions: Counts = new Map();
  readonly tasks: Counts = new Map();
  readonly reasons: Counts = new Map();
  readonly acts: Counts = new Map();
  readonly calls: Counts = new Map();
  readonly notes: Counts = new Map();
  readonly faults: Counts = new Map();
  readonly refusals: Counts = new Map();
  concluded = 0;
  readonly #at = new Map<string, string>();

  /** Reads what the gate stores, as it stores it. */
  wrote(host: string, query: string, bindings: readonly SqlValue[]): void {
    if (query.startsWith("INSERT INTO requests"))
      this.#request(host, String(bindings[0]), String(bindings[5]), String(bindings[9]));
    // A save that changed no index; the other kind follows where this one matches nothing.
    else if (query.startsWith("UPDATE requests SET record")) this.#saved(host, bindings);
    else if (query.startsWith("INSERT OR REPLACE INTO tasks"))
      bump(this.tasks, `${String(bindings[0])} ${String(bindings[2])}`);
    else if (query.startsWith("INSERT INTO audit")) {
      bump(this.acts, String(bindings[2]));
      if (bindings[3] !== null) bump(this.reasons, String(bindings[3]));
    } else if (bindings[0] === "lanes" && query.includes("meta")) {
      for (const [, code] of String(bindings[1]).matchAll(/"code":"([a-z-]+)"/g)) bump(this.reasons, code ?? "");
    }
  }

  /** A reason that is told elsewhere than in the audit. */
  reason(code: string): void {
    bump(this.reasons, code);
  }

  /** A token was refused for this. */
  refused(reason: string): void {
    bump(this.refusals, reason);
  }

  call(name: string): void {
    bump(this.calls, name);
  }

  note(text: string): void {
    bump(this.notes, text);
  }

  add(other: Coverage): void {
    for (const kind of COUNTED) for (const [name, count] of other[kind]) bump(this[kind], name, count);
    this.concluded += other.concluded;
  }

  /** What was never met, by its kind. */
  unreached(): Readonly<Record<string, readonly string[]>> {
    const states = new Set([...this.states.keys()].map((name) => name.split("/")[0]));
    const tasks = new Set([...this.tasks.keys()].map((name) => name.split(" ")[1]));
    return {
      states: NAMES.states.filter((kind) => !states.has(kind)),
      transitions: NAMES.transitions.filter((way) => !this.transitions.has(way)),
      tasks: NAMES.tasks.filter((kind) => !tasks.has(kind)),
      reasons: NAMES.reasons.filter((code) => !this.reasons.has(code)),
      refusals: NAMES.refusals.filter((reason) => !this.refusals.has(reason)),
      faults: NAMES.faults.filter((kind) => !this.faults.has(kind)),
    };
  }

  /** Takes in what another process met. */
  addCounts({ concluded, met }: z.infer<typeof coverageSchema>): void {
    this.concluded += concluded;
    for (const kind of COUNTED) for (const [name, count] of Object.entries(met[kind])) bump(this[kind], name, count);
  }

  /** Plain values, by name. */
  counts(): z.infer<typeof coverageSchema> {
    const sorted = (kind: Counted): Record<string, number> =>
      Object.fromEntries([...this[kind]].toSorted(([a], [b]) => (a < b ? -1 : 1)));
    const met = Object.fromEntries(COUNTED.map((kind) => [kind, sorted(kind)]));
    return coverageSchema.parse({ concluded: this.concluded, met });
  }

  json(): Readonly<Record<string, unknown>> {
    const { concluded, met } = this.counts();
    return { concluded, ...met, unreached: this.unreached() };
  }

  #saved(host: string, [record, id, kind]: readonly SqlValue[]): void {
    const was = this.#at.get(`${host} ${String(id)}`)?.split("/")[0];
    if (was !== undefined && was === kind) this.#request(host, String(id), was, String(record));
  }

  #request(host: string, id: string, kind: string, record: string): void {
    const key = `${host} ${id}`;
    const now = placeIn(kind, record);
    const before = this.#at.get(key);
    bump(this.states, now);
    if (before !== now) {
      bump(this.transitions, `${before ?? "(none)"} -> ${now}`);
      if (kind === "concluded") this.concluded += 1;
    }
    this.#at.set(key, now);
  }
}

/** Kinds of state that have steps, as records spell them. */
const STEPS: Readonly<Record<string, RegExp>> = {
  waiting: /"state":\{"kind":"waiting","for":"([^"]+)"/,
  preparing: /"state":\{"kind":"preparing","step":"([^"]+)"/,
  revalidating: /"state":\{"kind":"revalidating","step":"([^"]+)"/,
  provisioning: /"state":\{"kind":"provisioning","step":"([^"]+)"/,
  cleaning: /"state":\{"kind":"cleaning","step":"([^"]+)"/,
};

/** The state and its step by their names in docs/states.md. */
function placeIn(kind: string, record: string): string {
  const pattern = STEPS[kind];
  if (pattern === undefined) return kind;
  const quick = pattern.exec(record)?.[1];
  if (quick !== undefined && quick !== "teardown" && quick !== "remove") return `${kind}/${quick}`;
  // A record that was read and changed has its keys in another order; and a removal's step stands further inside.
  const { state } = recordSchema.parse(JSON.parse(record));
  const step = state.step ?? state.for ?? "";
  const removal = state.teardown?.step ?? "";
  if (step === "remove") return `${kind}/${removal}`;
  return step === "teardown" ? `${kind}/${step}/${removal}` : `${kind}/${step}`;
}

const recordSchema = z.object({
  state: z.object({
    step: z.string().optional(),
    for: z.string().optional(),
    teardown: z.object({ step: z.string() }).nullish(),
  }),
});
