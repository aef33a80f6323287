/**
 * Scripted misbehaviour: what the next matching request meets instead of the right answer.
 *
 * A fault is used up by the requests it matches; the first registered one that matches wins.
 */

export type FaultBehaviour =
  /** This answer, and nothing is done. A missing body is RunPod's problem document for the status. */
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly body?: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** It is done, but answered like this ("done but answered 500"). */
  | {
      readonly kind: "done-but";
      readonly status: number;
      readonly body?: string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** The connection is cut; `done` says whether the work was done first. */
  | { readonly kind: "drop"; readonly done: boolean }
  /** No answer ever comes. */
  | { readonly kind: "hang"; readonly done: boolean }
  /** It is done and answered with its own status, and a body that does not parse. */
  | { readonly kind: "garbage" }
  /** No capacity, in RunPod's own words. */
  | { readonly kind: "capacity" }
  | { readonly kind: "rate-limited"; readonly retryAfter?: string }
  /** A DELETE that is accepted although the pod lives on for this many reads of it. */
  | { readonly kind: "lives-on"; readonly reads: number };

export interface FaultMatcher {
  readonly method?: string;
  /** A route such as `/v2/pods/{id}`, or a pattern over the path. */
  readonly route?: string | RegExp;
  /** Of a create. */
  readonly gpuId?: string;
  readonly name?: string | RegExp;
}

export interface FaultRequest {
  readonly method: string;
  readonly route: string;
  readonly path: string;
  readonly gpuId: string | null;
  readonly name: string | null;
}

/** `503`: every request is refused so; `drop`: every connection is cut; `edge`: the edge's HTML instead of an answer. */
export type OutageMode = "503" | "drop" | "edge";

export interface FaultControl {
  /** The next `times` (default 1) requests that match meet the behaviour. */
  next(matcher: FaultMatcher, behaviour: FaultBehaviour, times?: number): void;
  /** Everything is down until `up`. */
  down(mode?: OutageMode): void;
  up(): void;
  /** Faults that no request has met yet. */
  pending(): number;
}

export class Faults implements FaultControl {
  #queue: { readonly matcher: FaultMatcher; readonly behaviour: FaultBehaviour; left: number }[] = [];
  outage: OutageMode | null = null;

  next(matcher: FaultMatcher, behaviour: FaultBehaviour, times = 1): void {
    this.#queue.push({ matcher, behaviour, left: times });
  }

  down(mode: OutageMode = "503"): void {
    this.outage = mode;
  }

  up(): void {
    this.outage = null;
  }

  pending(): number {
    return this.#queue.reduce((sum, fault) => sum + fault.left, 0);
  }

  take(request: FaultRequest): FaultBehaviour | null {
    const fault = this.#queue.find((candidate) => matches(candidate.matcher, request));
    if (!fault) return null;
    fault.left -= 1;
    if (fault.left <= 0) this.#queue = this.#queue.filter((other) => other !== fault);
    return fault.behaviour;
  }
}

function matches(matcher: FaultMatcher, request: FaultRequest): boolean {
  if (matcher.method !== undefined && matcher.method !== request.method) return false;
  if (typeof matcher.route === "string" && matcher.route !== request.route) return false;
  if (matcher.route instanceof RegExp && !matcher.route.test(request.path)) return false;
  if (matcher.gpuId !== undefined && matcher.gpuId !== request.gpuId) return false;
  return matcher.name === undefined || nameMatches(matcher.name, request.name);
}

export function nameMatches(wanted: string | RegExp, name: string | null): boolean {
  if (name === null) return false;
  return typeof wanted === "string" ? wanted === name : wanted.test(name);
}
