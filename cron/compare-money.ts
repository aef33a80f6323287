/**
 * Compares the account's money with every gate's and with RunPod's own list, each tick (design 3.5, step 3).
 *
 * Reads from all sides first, then hands everything to the account, which decides in one transaction. Differences are
 * alarms: they stand in the board's problems, in the log and in the repository's audit.
 */
import type { BookFinding, BooksSeen, SeenPod } from "../durable-objects/account/compare.ts";
import type { PodListing } from "../durable-objects/gate/ports.ts";
import { formatUsd } from "../shared/cost/estimate.ts";
import { audit } from "../shared/lifecycle/step.ts";
import { podIsGone } from "../shared/runpod/pod.ts";
import { ownedBy } from "../shared/runpod/tags.ts";
import type { BooksPorts, CronPorts } from "./ports.ts";
import type { ReapStatus } from "./reap.ts";
import { messageOf, type WakeStatus } from "./wake-gates.ts";

export interface CompareStatus {
  /** Gates that told their side, and those that did not. */
  readonly compared: number;
  readonly silent: number;
  readonly findings: readonly BookFinding[];
  readonly problems: readonly string[];
}

/** Gates asked at the same time. */
const PARALLEL = 10;

/**
 * Nobody's books can be open: every gate answered and has no money out, and a whole list of this tick shows no pod of ours. Most
 * minutes are like that, and need neither a second list nor every gate a second time.
 */
export function atRest(wake: WakeStatus | null, swept: ReapStatus | null): boolean {
  if (wake === null || wake.problems.length > 0) return false;
  if (swept?.kind !== "swept" || swept.complete !== true || swept.own > 0 || swept.reaped.length > 0) return false;
  return wake.visits.every((visit) => visit.answered && visit.openMoney === 0 && visit.pods.length === 0);
}

/**
 * `visited` are this tick's gates; those that the account or a pod names are asked as well. `resting`: what `atRest` said of this
 * tick; then the account alone is asked, which may still hold something open.
 */
export async function compareMoney(
  ports: CronPorts,
  books: BooksPorts,
  visited: readonly string[],
  resting = false,
): Promise<CompareStatus> {
  const problems: string[] = [];
  const open = await books.account.openReservations();
  if (resting && open.length === 0) return { compared: visited.length, silent: 0, findings: [], problems };
  // The list begins after the account was read: an attempt opened in between is not missed by either.
  const listing = await list(ports, problems);
  const pods = listing === null ? [] : ownPods(listing, ports.deployment);
  const ids = [
    ...new Set([...visited, ...open.map((one) => one.repositoryId), ...pods.map((pod) => pod.repositoryId)]),
  ];
  const gates: BooksSeen["gates"][number][] = [];
  for (let at = 0; at < ids.length; at += PARALLEL) {
    await Promise.all(
      ids.slice(at, at + PARALLEL).map(async (repositoryId) => {
        const asked = open.filter((one) => one.repositoryId === repositoryId).map((one) => one.attemptId);
        try {
          gates.push({ repositoryId, money: await books.gate(repositoryId).money(asked) });
        } catch (error) {
          problems.push(`The gate of repository ${repositoryId} did not tell its money: ${messageOf(error)}.`);
        }
      }),
    );
  }
  const seen = { list: listing, pods, gates };
  const findings = await books.account.compareBooks({
    ...seen,
    list: listing === null ? null : { startedAt: listing.startedAt, complete: listing.complete },
  });
  for (const finding of findings) await tell(finding, ports, books, problems);
  return { compared: gates.length, silent: ids.length - gates.length, findings, problems };
}

async function list(ports: CronPorts, problems: string[]): Promise<PodListing | null> {
  const answer = await ports.account
    .listPods(ports.clock.now())
    .catch((error: unknown) => ({ ok: false, why: messageOf(error) }) as const);
  if (answer.ok) return answer.value;
  problems.push(`The books were compared without a list of pods: ${answer.why}.`);
  return null;
}

/** Ours by their tags alone: a ledger's pods are told by their gate. */
function ownPods(listing: PodListing, deployment: string): readonly SeenPod[] {
  return listing.pods.flatMap((pod): SeenPod[] => {
    if (podIsGone(pod)) return [];
    const ownership = ownedBy(pod, deployment);
    if (ownership.kind !== "own" || ownership.identity === null) return [];
    const { repositoryId, attemptId } = ownership.identity;
    const { id: podId, costPerHour: pricePerHour, createdAtMs: createdAt } = pod;
    return [{ podId, repositoryId, attemptId, pricePerHour, createdAt }];
  });
}

/** A lost answer made up here is in the log; everything else is an alarm. */
async function tell(finding: BookFinding, ports: CronPorts, books: BooksPorts, problems: string[]): Promise<void> {
  const { kind, repositoryId, attemptId, micros } = finding;
  ports.log({ event: "cron.books", kind, repository: repositoryId, attempt: attemptId, micros });
  if (kind === "settled") return;
  problems.push(`Money of attempt ${attemptId} in repository ${repositoryId} was ${kind}: ${formatUsd(micros)}.`);
  try {
    await books.gate(repositoryId).note(audit(`money.${kind}`, null, { attempt: attemptId, micros }));
  } catch (error) {
    problems.push(`The audit of repository ${repositoryId} did not take a finding: ${messageOf(error)}.`);
  }
}
