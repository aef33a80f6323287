/**
 * Visits every gate that is served or has bought something: a gate whose alarm was lost wakes, and one that is due compares
 * itself with GitHub. Brings back which pods each gate pays for.
 */
import type { CronPorts } from "./ports.ts";

/** Gates visited at the same time. */
const PARALLEL = 10;
/** Notices of all gates together; the rest are counted. */
const NOTICES = 5;

export interface GateVisit {
  readonly id: string;
  readonly answered: boolean;
  readonly open: number;
  readonly overdue: number;
  /** Pods in this gate's open ledger lines. Empty when it did not answer. */
  readonly pods: readonly string[];
  /** It does not know its repository's name. */
  readonly unnamed?: boolean;
  readonly openMoney?: number;
}

export interface WakeStatus {
  readonly visits: readonly GateVisit[];
  /** Those of them that are on the account's register. */
  readonly registered: readonly string[];
  readonly problems: readonly string[];
  /**
   * What gates want seen that no other duty depends on, of the whole deployment: bounded, since a gate may say it for as long
   * as it lasts.
   */
  readonly notices: readonly string[];
}

export async function wakeGates(ports: CronPorts): Promise<WakeStatus> {
  const problems: string[] = [];
  const notices = new Map<string, readonly string[]>();
  const registered = await ports.account.registered().catch((error: unknown): readonly string[] => {
    problems.push(`The account did not tell its register: ${messageOf(error)}.`);
    return [];
  });
  const ids = [...new Set([...ports.allowedRepositories, ...registered])];
  const visits: GateVisit[] = [];
  for (let at = 0; at < ids.length; at += PARALLEL) {
    visits.push(...(await Promise.all(ids.slice(at, at + PARALLEL).map((id) => visit(id, ports, problems, notices)))));
  }
  return { visits, registered, problems, notices: firstOf(ids.map((id) => notices.get(id) ?? [])) };
}

async function visit(
  id: string,
  ports: CronPorts,
  problems: string[],
  notices: Map<string, readonly string[]>,
): Promise<GateVisit> {
  try {
    const { notices: told = [], ...tick } = await ports.gate(id).tick();
    notices.set(id, told);
    return { id, answered: true, ...tick };
  } catch (error) {
    problems.push(`The gate of repository ${id} did not answer: ${messageOf(error)}.`);
    return { id, answered: false, open: 0, overdue: 0, pods: [] };
  }
}

/** One of each gate before the second of any, so that no gate hides another's. */
function firstOf(byGate: readonly (readonly string[])[]): readonly string[] {
  const most = Math.max(0, ...byGate.map((told) => told.length));
  const all = Array.from({ length: most }, (_, rank) => byGate.flatMap((told) => told.slice(rank, rank + 1))).flat();
  const more = all.length - NOTICES;
  return more > 0 ? [...all.slice(0, NOTICES), `Gates have ${more} more notices like these.`] : all;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : "unknown error";
}
