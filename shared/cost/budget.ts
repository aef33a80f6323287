/**
 * May this attempt be bought? Pure arithmetic over totals that the caller holds.
 *
 * Every cap is compared with spent + reserved + asked, so ten requests that ask at once cannot all find the same money.
 * Days and months are UTC: a cap must not move with somebody's clock.
 */
import type { Millis } from "../ports.ts";
import { formatUsd, type MicroUsd } from "./estimate.ts";

/** In the order they are checked and told: the narrowest first. */
export const CAPS = ["run", "pull-request", "author", "day", "month", "deployment"] as const;
export type Cap = (typeof CAPS)[number];

/** Who may lift a cap for one run: the repository's own caps the operator, the deployment's nobody. */
export type Lifter = "operator" | "nobody";

/** Micro-dollars; null is a cap that the configuration leaves out on purpose. */
export type Caps = Readonly<Record<Cap, MicroUsd | null>>;

export interface Total {
  readonly spent: MicroUsd;
  readonly reserved: MicroUsd;
}

export type Totals = Readonly<Record<Cap, Total>>;

export interface CapExceeded {
  readonly cap: Cap;
  readonly limit: MicroUsd;
  readonly spent: MicroUsd;
  readonly reserved: MicroUsd;
  readonly asked: MicroUsd;
  readonly whoMayLift: Lifter;
}

export type Admission =
  | { readonly admitted: true }
  /** `exceeded` holds every cap that stands in the way, the narrowest first: lifting one alone may not be enough. */
  | { readonly admitted: false; readonly exceeded: readonly [CapExceeded, ...CapExceeded[]] };

/**
 * Checks an amount against every cap. `lifted` names caps that somebody with the right to do so lifted for this run.
 * An amount that is no whole positive number is never admitted: unknown is not free.
 */
export function admit(asked: MicroUsd, caps: Caps, totals: Totals, lifted: ReadonlySet<Cap> = new Set()): Admission {
  const countable = Number.isSafeInteger(asked) && asked > 0;
  const exceeded: CapExceeded[] = [];
  for (const cap of CAPS) {
    const limit = caps[cap];
    if (limit === null || (countable && lifted.has(cap))) continue;
    const { spent, reserved } = totals[cap];
    if (countable && spent + reserved + asked <= limit) continue;
    exceeded.push({ cap, limit, spent, reserved, asked, whoMayLift: cap === "deployment" ? "nobody" : "operator" });
  }
  const [first, ...rest] = exceeded;
  if (first !== undefined) return { admitted: false, exceeded: [first, ...rest] };
  if (countable) return { admitted: true };
  // Without a single cap left to name, the amount itself is what stands in the way.
  const { spent, reserved } = totals.run;
  return { admitted: false, exceeded: [{ cap: "run", limit: 0, spent, reserved, asked, whoMayLift: "operator" }] };
}

/** For the check: which cap, how much is gone, how much was asked, and whose word would help. */
export function describeExceeded(exceeded: CapExceeded): string {
  const { cap, limit, spent, reserved, asked, whoMayLift } = exceeded;
  const help =
    whoMayLift === "operator"
      ? "The deployment's operator may lift it for this run (`gpu-gate operator approve`)."
      : "It is not lifted for one run; the deployment's operator may raise it (`DEPLOYMENT_LIMITS`).";
  return (
    `The cap per ${CAP_WORDS[cap]} is ${formatUsd(limit)}: ${formatUsd(spent)} spent, ${formatUsd(reserved)} reserved, ` +
    `${formatUsd(asked)} asked. ${help}`
  );
}

const CAP_WORDS: Readonly<Record<Cap, string>> = {
  run: "run",
  "pull-request": "pull request",
  author: "author and day (UTC)",
  day: "day (UTC)",
  month: "month (UTC)",
  deployment: "month over all repositories of this deployment",
};

/** One attempt's money as a ledger holds it. */
export interface MoneyLine {
  /** When the attempt was opened; the window it belongs to, also when it ends in the next one. */
  readonly openedAt: Millis;
  readonly state: "reserved" | "spent";
  readonly amount: MicroUsd;
  readonly repositoryId: string;
  readonly requestId: string;
  readonly prNumber: number | null;
  readonly authorId: string | null;
}

export type Spender = Pick<MoneyLine, "repositoryId" | "requestId" | "prNumber" | "authorId">;

/**
 * The totals that count for this spender now. An open reservation counts in every window, however old it is: its money
 * may still be spent today. Deployment lines are those of all repositories; the others are this repository's alone.
 */
export function totalsFor(lines: Iterable<MoneyLine>, spender: Spender, now: Millis): Totals {
  const sums: Record<Cap, { spent: MicroUsd; reserved: MicroUsd }> = {
    run: { spent: 0, reserved: 0 },
    "pull-request": { spent: 0, reserved: 0 },
    author: { spent: 0, reserved: 0 },
    day: { spent: 0, reserved: 0 },
    month: { spent: 0, reserved: 0 },
    deployment: { spent: 0, reserved: 0 },
  };
  const today = utcDay(now);
  const thisMonth = utcMonth(now);
  for (const line of lines) {
    const open = line.state === "reserved";
    const inMonth = open || utcMonth(line.openedAt) === thisMonth;
    const inDay = open || utcDay(line.openedAt) === today;
    const ours = line.repositoryId === spender.repositoryId;
    const counts: Readonly<Record<Cap, boolean>> = {
      run: ours && line.requestId === spender.requestId,
      "pull-request": ours && spender.prNumber !== null && line.prNumber === spender.prNumber,
      author: ours && inDay && spender.authorId !== null && line.authorId === spender.authorId,
      day: ours && inDay,
      month: ours && inMonth,
      deployment: inMonth,
    };
    for (const cap of CAPS) if (counts[cap]) sums[cap][line.state] += line.amount;
  }
  return sums;
}

/** `2026-11-30`, the UTC day of an instant. */
export function utcDay(at: Millis): string {
  return new Date(at).toISOString().slice(0, 10);
}

/** `2026-11`, the UTC month of an instant. */
export function utcMonth(at: Millis): string {
  return new Date(at).toISOString().slice(0, 7);
}
