/** What a number of seeds came to, in a form that goes from one process to another and adds up. */
import * as z from "zod";
import { Coverage, coverageSchema } from "./coverage.ts";
import type { RunResult } from "./run.ts";

const failureSchema = z.object({
  seed: z.number(),
  /** The checker that objected, or `trace`: two runs of the seed differed. */
  checker: z.string(),
  what: z.string(),
  /** Milliseconds from the start of the seed's day. */
  at: z.number(),
  events: z.number(),
  concluded: z.number(),
  pods: z.number(),
});

export type Failure = Readonly<z.infer<typeof failureSchema>>;

/** As `Totals.json` gives it. */
export const totalsSchema = z.object({
  ran: z.number(),
  events: z.number(),
  calls: z.number(),
  pods: z.number(),
  virtualMs: z.number(),
  failures: z.array(failureSchema),
  coverage: coverageSchema,
});

export class Totals {
  ran = 0;
  events = 0;
  calls = 0;
  pods = 0;
  virtualMs = 0;
  readonly failures: Failure[] = [];
  readonly coverage = new Coverage();

  /** Takes in one seed. Its failure, if it failed. */
  take(result: RunResult): Failure | null {
    this.ran += 1;
    this.events += result.events;
    this.calls += result.calls;
    this.pods += result.pods;
    this.virtualMs += result.virtualMs;
    this.coverage.add(result.coverage);
    return result.violation === null ? null : this.#fail(result, result.violation);
  }

  /** Takes in a seed whose second run was another one. */
  differs(result: RunResult): Failure {
    return this.#fail(result, { checker: "trace", what: "two runs of it differ", at: result.virtualMs });
  }

  /** Takes in what another process came to. */
  add(other: z.infer<typeof totalsSchema>): void {
    this.ran += other.ran;
    this.events += other.events;
    this.calls += other.calls;
    this.pods += other.pods;
    this.virtualMs += other.virtualMs;
    this.failures.push(...other.failures);
    this.coverage.addCounts(other.coverage);
  }

  json(): z.infer<typeof totalsSchema> {
    const { ran, events, calls, pods, virtualMs, failures, coverage } = this;
    return { ran, events, calls, pods, virtualMs, failures, coverage: coverage.counts() };
  }

  #fail(result: RunResult, why: { readonly checker: string; readonly what: string; readonly at: number }): Failure {
    const { seed, events, concluded, pods } = result;
    const failure = { seed, ...why, events, concluded, pods };
    this.failures.push(failure);
    return failure;
  }
}
