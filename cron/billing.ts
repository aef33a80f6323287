/**
 * Holds RunPod's own bill against our estimates, once each night.
 *
 * The account reads the bill of the past days once for all gates; each gate writes it beside its closed lines and names what
 * drifts. The estimate never looks at the bill. What was charged for pods that no ledger knows is reported: on a shared
 * account it is other people's, otherwise somebody should look.
 */
import type { Drift } from "../durable-objects/gate/bills.ts";
import { utcDay } from "../shared/cost/budget.ts";
import { formatUsd, type MicroUsd } from "../shared/cost/estimate.ts";
import type { BooksPorts, CronPorts } from "./ports.ts";
import { messageOf } from "./wake-gates.ts";

export interface BillingStatus {
  /** `not-due`: done today, tried a moment ago, or the night is young. */
  readonly kind: "not-due" | "no-bill" | "reconciled";
  readonly pods: number;
  readonly drifts: readonly (Drift & { readonly repositoryId: string })[];
  readonly unknown: { readonly pods: number; readonly micros: MicroUsd };
  readonly problems: readonly string[];
}

const DAY_MS = 86_400_000;
/** Days looked back on: a bill that comes late is still found. */
const DAYS = 7;
/** The nightly turn, UTC: the day before is closed everywhere by then. */
const HOUR = 2;
const RETRY_MS = 3_600_000;
/** A pod that ended less than this ago may still be charged for. */
const SETTLED_MS = 3_600_000;
const PODS_NAMED = 5;

const NOTHING = { pods: 0, drifts: [], unknown: { pods: 0, micros: 0 }, problems: [] };

export interface BillingOptions {
  /** An operator asks now: no turn is taken, and pods count as settled at once. */
  readonly now?: boolean;
}

export async function reconcileBills(
  ports: Pick<CronPorts, "clock" | "log">,
  books: BooksPorts,
  gates: readonly string[],
  options: BillingOptions = {},
): Promise<BillingStatus> {
  const now = ports.clock.now();
  const today = utcDay(now);
  if (options.now !== true) {
    if (new Date(now).getUTCHours() < HOUR) return { ...NOTHING, kind: "not-due" };
    const turn = await books.account.takeBillingTurn(today, RETRY_MS);
    // What last night found stays on the board until the next night.
    if (!turn.due) return { ...NOTHING, kind: "not-due", problems: turn.lastProblems };
  }
  const since = Date.parse(today) - DAYS * DAY_MS;
  const answer = await books.account.bills(since, now);
  if (!answer.ok) return { ...NOTHING, kind: "no-bill", problems: [`${answer.why}.`] };

  const window = { since, settledBefore: options.now === true ? now : now - SETTLED_MS };
  const problems: string[] = [];
  const drifts: BillingStatus["drifts"][number][] = [];
  const known = new Set<string>();
  let silent = 0;
  // A repository that was removed since is visited no more, and its pods are on the bill for days.
  const buyers = await books.account.buyers(since).catch((error: unknown): readonly string[] => {
    silent += 1;
    problems.push(`The account did not say who has bought in these days: ${messageOf(error)}.`);
    return [];
  });
  for (const repositoryId of new Set([...gates, ...buyers])) {
    try {
      const taken = await books.gate(repositoryId).recordBills(answer.value, window);
      for (const podId of taken.known) known.add(podId);
      drifts.push(...taken.drifts.map((drift) => ({ ...drift, repositoryId })));
    } catch (error) {
      silent += 1;
      problems.push(`The gate of repository ${repositoryId} took no bills: ${messageOf(error)}.`);
    }
  }
  for (const drift of drifts) {
    const estimate = drift.estimate === null ? "unknown" : formatUsd(drift.estimate);
    problems.push(`Pod ${drift.podId} was billed ${formatUsd(drift.billed)}; our estimate is ${estimate}.`);
    ports.log({ event: "cron.bill-drift", pod: drift.podId, estimate: drift.estimate, billed: drift.billed });
  }
  const strange = answer.value.filter((bill) => !known.has(bill.podId) && bill.micros > 0);
  const unknown = { pods: strange.length, micros: strange.reduce((sum, bill) => sum + bill.micros, 0) };
  // Without every gate's word nobody knows what no ledger knows.
  if (strange.length > 0 && silent === 0) {
    const names = strange.slice(0, PODS_NAMED).map((bill) => bill.podId);
    problems.push(
      `${formatUsd(unknown.micros)} were charged in ${DAYS} days for ${unknown.pods === 1 ? "1 pod" : `${unknown.pods} pods`} that no ledger knows: ${names.join(", ")}. On an account that others use as well they are theirs.`,
    );
  }
  // A gate that did not answer is asked again in an hour.
  if (silent === 0) await books.account.billingDone(today, problems);
  return { kind: "reconciled", pods: known.size, drifts, unknown, problems };
}
