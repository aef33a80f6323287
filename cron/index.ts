/**
 * One cron tick: every duty in turn, whatever became of the one before. Takes no input and does nothing twice; a lost tick
 * is made up by the next.
 */
import { reconcileBills, type BillingStatus } from "./billing.ts";
import { writeBoard } from "./board.ts";
import { atRest, compareMoney, type CompareStatus } from "./compare-money.ts";
import { findRepositories, type FindStatus } from "./find-repositories.ts";
import type { CronGitHub, CronPorts, DutyReport } from "./ports.ts";
import { reap, type ReapStatus } from "./reap.ts";
import { redeliver, type RedeliverPorts, type RedeliverStatus } from "./redeliver.ts";
import { tidyRegister } from "./tidy-register.ts";
import { messageOf, wakeGates, type GateVisit, type WakeStatus } from "./wake-gates.ts";

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
  const { books, github } = ports;
  const problems: string[] = [];
  if (github !== undefined) {
    const again = await duty(ports, duties, "redeliver", () => redeliver(asked(github), ports.clock), redeliverWords);
    const missing = (wake?.visits ?? []).filter((one) => one.unnamed === true && ports.allowedRepositories.has(one.id));
    const found = await duty(ports, duties, "find-repositories", () => find(missing, github, ports), findWords);
    problems.push(...(again?.problems ?? []), ...(found?.problems ?? []));
  }
  if (ports.account.unregister !== undefined) {
    await duty(ports, duties, "register", () => tidyRegister(ports, wake, reaped, startedAt), registerWords);
  }
  const ids = (wake?.visits ?? []).map((visit) => visit.id);
  if (books !== undefined) {
    const resting = atRest(wake, reaped);
    const compare = () => compareMoney(ports, books, ids, resting);
    const compared = await duty(ports, duties, "compare-money", compare, compareWords);
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

function asked({ app, turns, redeliveryMs }: CronGitHub): RedeliverPorts {
  return { github: app, turns, everyMs: redeliveryMs };
}

function find(missing: readonly GateVisit[], github: CronGitHub, ports: CronPorts): Promise<FindStatus> {
  const { app, turns, findMs } = github;
  return findRepositories(
    missing.map((visit) => visit.id),
    {
      github: app,
      turns,
      everyMs: findMs,
      introduce: async (repository, installationId) =>
        ports.gate(repository.id).introduce?.(repository, installationId),
    },
  );
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

function wakeWords({ visits, problems, notices }: WakeStatus): string {
  return [`${visits.length} gates visited`, ...problems, ...notices].join("; ");
}

function redeliverWords({ kind, read, asked: again, waiting, problems }: RedeliverStatus): string {
  if (kind === "not-due") return "not due";
  return [`${read} deliveries read (${kind}), ${again} asked for again, ${waiting} waiting`, ...problems].join("; ");
}

function findWords({ kind, found, missing, problems }: FindStatus): string {
  if (kind === "none-missing") return "every gate knows its repository";
  return [`${kind}: ${found.length} found, ${missing.length} missing`, ...problems].join("; ");
}

function registerWords(removed: readonly string[]): string {
  return removed.length === 0 ? "nothing to take off" : `${removed.length} repositories taken off`;
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
        ...((status.unbooked ?? 0) > 0 ? [`${status.unbooked} deleted and not booked yet`] : []),
        ...status.problems,
      ].join("; ");
  }
}
