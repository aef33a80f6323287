/**
 * One cron tick: every duty in turn, whatever became of the one before. Takes no input and does nothing twice; a lost tick
 * is made up by the next.
 */
import { reconcileBills, type BillingStatus } from "./billing.ts";
import { writeBoard } from "./board.ts";
import { compareMoney, type CompareStatus } from "./compare-money.ts";
import type { CronPorts, DutyReport } from "./ports.ts";
import { reap, type ReapStatus } from "./reap.ts";
import { messageOf, wakeGates, type WakeStatus } from "./wake-gates.ts";

export interface TickReport {
  readonly wake: WakeStatus | null;
  readonly reap: ReapStatus | null;
  readonly duties: readonly DutyReport[];
}

/** Null ports: the deployment is not configured, and was logged as such. Never throws. */
export async function runCron(ports: CronPorts | null): Promise<TickReport | null> {
  if (ports === null) return null;
  const startedAt = ports.clock.now();
  const duties: DutyReport[] = [];
  const wake = await duty(ports, duties, "wake-gates", () => wakeGates(ports), wakeWords);
  const reaped = await duty(ports, duties, "reap", () => reap(ports, wake?.visits ?? []), reapWords);
  const { books } = ports;
  const ids = (wake?.visits ?? []).map((visit) => visit.id);
  const problems: string[] = [];
  if (books !== undefined) {
    const compared = await duty(ports, duties, "compare-money", () => compareMoney(ports, books, ids), compareWords);
    const bills = await duty(ports, duties, "billing", () => reconcileBills(ports, books, ids), billingWords);
    problems.push(...(compared?.problems ?? []), ...(bills?.problems ?? []));
  }
  const tick = { startedAt, problems, wake, reap: reaped, duties: [...duties] };
  await duty(
    ports,
    duties,
    "board",
    () => writeBoard(ports, tick),
    () => "written",
  );
  return { wake, reap: reaped, duties };
}

/** Performs one duty; its failure is a line in the report and nobody else's. */
async function duty<T>(
  ports: CronPorts,
  duties: DutyReport[],
  name: string,
  perform: () => Promise<T>,
  words: (value: T) => string,
): Promise<T | null> {
  const began = ports.clock.now();
  let value: T | null = null;
  let report: { ok: boolean; what: string };
  try {
    value = await perform();
    report = { ok: true, what: words(value) };
  } catch (error) {
    report = { ok: false, what: messageOf(error) };
  }
  const entry = { name, ms: ports.clock.now() - began, ...report };
  duties.push(entry);
  ports.log({ event: "cron.duty", ...entry });
  return value;
}

function wakeWords({ visits, problems }: WakeStatus): string {
  return [`${visits.length} gates visited`, ...problems].join("; ");
}

function compareWords({ compared, silent, findings }: CompareStatus): string {
  return `${compared} gates compared, ${silent} silent, ${findings.length} differences`;
}

function billingWords(status: BillingStatus): string {
  switch (status.kind) {
    case "not-due":
      return "not due";
    case "no-bill":
      return `no bill: ${status.problems.join(" ")}`;
    case "reconciled":
      return `${status.pods} pods reconciled, ${status.drifts.length} drifts, ${status.unknown.pods} unknown pods`;
  }
}

function reapWords(status: ReapStatus): string {
  switch (status.kind) {
    case "skipped":
      return "skipped: another sweep is under way";
    case "no-list":
      return ["RunPod's list could not be read", ...status.problems].join("; ");
    case "swept":
      return [
        `${status.own} own pods of ${status.listed} seen, ${status.reaped.length} reaped, ${status.suspected} suspected`,
        ...status.problems,
      ].join("; ");
  }
}
