/** Faults on demand: what a test or the opening day orders GitHub to do wrong. */

export interface FaultMatcher {
  readonly method?: string;
  /** Tested against the path without the query. */
  readonly path?: RegExp;
}

export type FaultBehaviour =
  | { readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  /** The connection ends without an answer and nothing is done. */
  | "drop"
  /** The request is carried out, then answered 500. */
  | "done-but-500"
  /** The request is carried out, then the connection ends without an answer. */
  | "done-but-drop"
  /** Carried out and answered, but only after this many milliseconds. */
  | { readonly delayMs: number };

export type Outage = false | "503" | "drop";

export class Faults {
  readonly #rules: { readonly matcher: FaultMatcher; readonly behaviour: FaultBehaviour; left: number }[] = [];
  #outage: Outage = false;

  /** The next `times` matching requests behave this way. Rules are tried in the order they were made. */
  next(matcher: FaultMatcher, behaviour: FaultBehaviour, times = 1): void {
    this.#rules.push({ matcher, behaviour, left: times });
  }

  /** The whole service, runners' connections included: `true` answers 503 to everything, `"drop"` answers nothing. */
  down(state: boolean | "drop"): void {
    this.#outage = state === true ? "503" : state;
  }

  clear(): void {
    this.#rules.length = 0;
    this.#outage = false;
  }

  get outage(): Outage {
    return this.#outage;
  }

  take(method: string, path: string): FaultBehaviour | null {
    const rule = this.#rules.find(
      ({ matcher, left }) =>
        left > 0 &&
        (matcher.method === undefined || matcher.method === method) &&
        (matcher.path === undefined || matcher.path.test(path)),
    );
    if (rule === undefined) return null;
    rule.left -= 1;
    return rule.behaviour;
  }
}

export function faultName(behaviour: FaultBehaviour): string {
  if (typeof behaviour === "string") return behaviour;
  return "delayMs" in behaviour ? `delay ${behaviour.delayMs} ms` : `answer ${behaviour.status}`;
}
