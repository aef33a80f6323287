/** The configured time limits in the unit the code reckons in. */
import type { Millis } from "../ports.ts";
import type { LimitName, RepositoryConfig } from "./schema.ts";

export type LimitMillis = { readonly [name in LimitName]: Millis };

/** The `limits` of a configuration in milliseconds, under the same names. */
export function limitMillis(config: Pick<RepositoryConfig, "limits">): LimitMillis {
  const entries = Object.entries(config.limits).map(([name, value]) => [name, toMillis(value)] as const);
  return Object.fromEntries(entries) as LimitMillis;
}

/** Seconds as written by people, as whole milliseconds. */
export function toMillis(seconds: number): Millis {
  return Math.round(seconds * 1000);
}
