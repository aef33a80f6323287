/** Stored text as a value. */
import type * as z from "zod";
import { err, ok, type Result } from "../../shared/result.ts";

/** Damaged, or written by newer code. `where`: the first field that does not fit; empty for the whole. */
export interface Unreadable {
  readonly reason: "unreadable";
  readonly where: string;
}

/**
 * What a column holds as JSON; null when it holds none. A damaged row is for the schema behind this to refuse, like one of
 * another shape: thrown from here it would end a tick in which other requests wait.
 */
export function storedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/** A column of JSON as what it should be. Nothing is thrown: what one row holds is no matter of the others. */
export function readStored<T>(schema: z.ZodType<T>, text: string): Result<T, Unreadable> {
  const parsed = schema.safeParse(storedJson(text));
  if (parsed.success) return ok(parsed.data);
  return err({ reason: "unreadable", where: parsed.error.issues[0]?.path.join(".") ?? "" });
}
