/**
 * What a run of the simulator may leave unreached, and why: everything else that the product can say or do has to be met
 * within some hundred seeds, and is reported where it is not.
 */
import type { Coverage } from "./coverage.ts";

/** Names that cannot occur in this world, each with the reason. */
export const UNREACHABLE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  reasons: {
    "repository-not-allowed":
      "the Worker turns such deliveries away; the gate meets it when a name leads to another id",
    "read-only": "an answer of the gate's to the Worker; nothing is written while it lasts (I12 looks on)",
    "lane-labels-missing": "the configuration's schema demands labels; the command line may be given none",
    "policy-not-required": "a policy that changes while a change waits needs a second classifier in the checker of I4",
    "lock-lost": "nobody takes the lock from a request that has not ended; test/gate/lock.test.ts takes it by hand",
    "internal-error": "takes sixty failures of our own in a row; test/gate/fault.test.ts throws them",
  },
  states: {},
  transitions: {},
  tasks: {},
  faults: {},
  refusals: {
    owner: "here an account keeps its id and a repository its owner; test/oidc/forged.test.ts has the rest",
    "workflow-never-opens": "no drawn configuration names prepare or execute as the workflow that asks",
    "not-yet-valid": "the issuer's clock is right, and ours is off by two seconds at most",
  },
};

/** What each kind of name is called, and what becomes of one. */
const WORDS: Readonly<Record<string, readonly [one: string, many: string, met: string]>> = {
  states: ["state of a request", "states of a request", "entered"],
  transitions: ["way between two states", "ways between two states", "taken"],
  tasks: ["kind of task", "kinds of task", "put"],
  reasons: ["reason", "reasons", "given"],
  refusals: ["refusal of a token", "refusals of a token", "met"],
  faults: ["kind of fault", "kinds of fault", "played"],
};

export interface Unreached {
  /** Should have been met. */
  readonly missing: Readonly<Record<string, readonly string[]>>;
  /** On the list above, and met all the same: the list is wrong there. */
  readonly metAnyway: readonly string[];
}

export function unreached(coverage: Pick<Coverage, "unreached">): Unreached {
  const missing: Record<string, readonly string[]> = {};
  const metAnyway: string[] = [];
  for (const [what, names] of Object.entries(coverage.unreached())) {
    const excused = UNREACHABLE[what] ?? {};
    missing[what] = names.filter((name) => !Object.hasOwn(excused, name));
    metAnyway.push(...Object.keys(excused).filter((name) => !names.includes(name)));
  }
  return { missing, metAnyway };
}

/** The same in sentences, one for each kind of name. `all`: how many names of each kind there are. */
export function unreachedLines(
  coverage: Pick<Coverage, "unreached">,
  all: Readonly<Record<string, number>>,
): readonly string[] {
  const { missing, metAnyway } = unreached(coverage);
  const lines = Object.entries(missing).map(([what, names]) => {
    const [one, many, met] = WORDS[what] ?? [what, what, "met"];
    const excused = Object.keys(UNREACHABLE[what] ?? {}).length;
    const count = (all[what] ?? 0) - excused;
    const but = excused === 0 ? "" : ` (but the ${excused} that sim/unreachable.ts excuses)`;
    if (names.length === 0) return `Every ${one} was ${met}${but}.`;
    const were = names.length === 1 ? "was" : "were";
    return `Of ${count} ${many}${but}, ${names.length} ${were} never ${met}: ${names.join(", ")}.`;
  });
  if (Object.values(missing).some((names) => names.length > 0))
    lines.push("Some hundred seeds reach nearly all of it.");
  if (metAnyway.length > 0)
    lines.push(`Reached, though sim/unreachable.ts says that it cannot be: ${metAnyway.join(", ")}.`);
  return lines;
}
