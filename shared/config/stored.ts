/**
 * A configuration as a gate stored it, possibly by an older version of this code: requests under way go on under the terms
 * they began with (I12), although a file that says the same is refused today. What was never honoured reads as what was
 * done instead.
 */
import * as z from "zod";
import { RETIRED } from "./retired.ts";
import { repositoryConfigSchema, type RepositoryConfig } from "./schema.ts";

/** The reaper never spared a pod for longer, whatever was written: up to twelve hours could be. */
const spared = z.number().transform((seconds) => Math.min(seconds, 10_800));

/** The parts that today's schema is narrower in. Everything else is passed on as it is. */
const older = z.looseObject({
  // Up to 4 could be written; a pod with any number but one was given back.
  gpu: z.looseObject({ count: z.unknown().transform(() => 1 as const) }),
  retention: z.looseObject({ duration: spared, max_retention: spared }),
});

/** Null: no version wrote this. */
export function storedConfig(value: unknown): RepositoryConfig | null {
  const fitted = older.safeParse(value);
  const known = fitted.success ? withoutRetired(fitted.data) : value;
  const parsed = repositoryConfigSchema.safeParse(known);
  return parsed.success ? parsed.data : null;
}

/** Every key of its day was stored, with its default: those that are gone since then, too. */
function withoutRetired(config: object): object {
  const rest = structuredClone(config) as Record<string, unknown>;
  for (const { path } of RETIRED) {
    const [section = "", key = ""] = path;
    const part = rest[section];
    if (typeof part === "object" && part !== null) Reflect.deleteProperty(part, key);
  }
  return rest;
}
