/**
 * Typed results: what a call at a boundary gives back instead of throwing.
 *
 * `Result` is for outcomes a caller must handle (a provider refused, an input does not parse). Exceptions are kept for
 * bugs. An error is always an object with a `reason`, so that a `switch` over it can be exhaustive.
 */

export type Ok<T> = { readonly ok: true; readonly value: T };
export type Err<E> = { readonly ok: false; readonly error: E };
export type Result<T, E> = Ok<T> | Err<E>;

export function ok<T>(value: T): Ok<T> {
  return { ok: true, value };
}

export function err<E>(error: E): Err<E> {
  return { ok: false, error };
}

/** Fails to compile when a switch forgot an arm; throws if data from outside got past the types. */
export function unreachable(value: never, what: string): never {
  throw new Error(`${what}: unexpected value ${JSON.stringify(value)}`);
}

/** A programmer error: the condition holds in every correct program. Never used for input from outside. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}
