/** What a fuzz target is: cases that print as JSON, and a judge of its own that knows what must hold. */
import type * as fc from "fast-check";

/** One bench that cases are tried on, one after the other. */
export interface Session<Case> {
  /** Null: all is well. Else one sentence: what was seen, and what should have been. */
  judge(given: Case): Promise<string | null>;
  close(): Promise<void>;
}

export interface Target<Case = unknown> {
  readonly name: string;
  readonly about: string;
  /** Of a run's cases this target gets `share` parts. */
  readonly share: number;
  /** Cheap: part of the sample in `npm test`. */
  readonly sample: number;
  /** A case that runs longer than this has hung. The usual is ten seconds. */
  readonly hangMs?: number;
  readonly cases: fc.Arbitrary<Case>;
  open(): Promise<Session<Case>>;
}

/** Keeps the type of the case inside, so that targets of different cases stand in one list. */
export function target<Case>(made: Target<Case>): Target {
  return {
    ...made,
    // A case from the corpus was written by this target; what no longer fits it is judged like any other case.
    async open() {
      const session = await made.open();
      return { judge: (given) => session.judge(given as Case), close: () => session.close() };
    },
  };
}

/** A sentence of the error, or of whatever was thrown. */
export function thrown(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}`.slice(0, 300) : `a thrown ${typeof error}`;
}

/** What no case may do to the process it runs in. Asked after every case, whatever its target. */
export function polluted(): string | null {
  for (const key in {}) return `every object has a key ${JSON.stringify(key)} now`;
  return Object.hasOwn(Object.prototype, "polluted") ? "Object.prototype was written to" : null;
}

const STACK = /\n\s+at |\bat \S+ \(|\.ts:\d+:\d+|node:internal/;

/** What no answer to a caller may show. */
export function unfit(text: string, secrets: readonly string[]): string | null {
  if (STACK.test(text)) return `the answer shows a stack: ${text.slice(0, 200)}`;
  for (const secret of secrets) if (secret.length > 5 && text.includes(secret)) return "the answer shows a secret";
  return null;
}
