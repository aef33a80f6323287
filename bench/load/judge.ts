/**
 * Whether nothing was lost, and nothing happened that must not: each sentence in `problems` is one thing that is not right.
 *
 * Held against each other: what was sent and answered, the gates' stored books, the local GitHub's and the local RunPod's.
 */
import type { GateBooks } from "./books.ts";
import type { Planned, Target } from "./deliveries.ts";
import type { Sent } from "./sender.ts";
import type { LoadWorld } from "./world.ts";

export interface Judged {
  /** Signed deliveries that a gate must have heard, and those found exactly once. */
  readonly heard: number;
  readonly found: number;
  /** Deliveries that no gate may know. */
  readonly strangers: number;
  /** The local GitHub's own deliveries, and how many of them a gate took. */
  readonly githubs: number;
  readonly githubsTaken: number;
  readonly requests: number;
  readonly pods: number;
  readonly worstBillDifferenceMs: number;
  readonly problems: readonly string[];
}

export interface Evidence {
  readonly planned: readonly Planned[];
  readonly sent: readonly Sent[];
  readonly gates: readonly GateBooks[];
  readonly world: Pick<LoadWorld, "github" | "runpod">;
  readonly gated: readonly Target[];
  readonly running: number;
  readonly expectedPods: number;
}

/** What an estimate may differ from the bill: two seconds, and one request's duration at each end. */
const BILL_MS = 4_000;

export function judge(evidence: Evidence): Judged {
  const { planned, sent, gates, world, gated } = evidence;
  const problems: string[] = [];
  const placesOf = new Map<string, string[]>();
  for (const gate of gates) {
    for (const guid of gate.deliveries.keys()) {
      placesOf.set(guid, [...(placesOf.get(guid) ?? []), gate.repositoryId]);
    }
  }
  const answers = Map.groupBy(sent, (one) => one.guid);
  let found = 0;
  for (const one of planned) {
    const places = placesOf.get(one.guid) ?? [];
    const statuses = (answers.get(one.guid) ?? []).map(({ status }) => status);
    if (one.expected === "refused") {
      if (places.length > 0) problems.push(`${one.guid} had a bad signature and is in a gate's books`);
      if (statuses.some((status) => status !== 401))
        problems.push(`${one.guid} had a bad signature and was answered ${statuses.join(", ")}`);
      continue;
    }
    if (!statuses.some((status) => status >= 200 && status < 300))
      problems.push(`${one.guid} (${one.event}) was never taken: ${statuses.join(", ")}`);
    if (one.expected === "ignored") {
      if (places.length > 0) problems.push(`${one.guid} (${one.event}) is ignored and is in a gate's books`);
    } else if (places.length === 1 && places[0] === one.repository.id) found += 1;
    else problems.push(`${one.guid} (${one.event}) is in the books of ${places.length} gates`);
  }
  const own = githubs(world, placesOf, problems);
  for (const gate of gates) judgeGate(gate, problems);
  const worst = judgePods(evidence, problems);
  for (const target of gated) {
    const gate = gates.find((one) => one.repositoryId === target.id);
    const row = gate?.requests.find((request) => request.headSha === target.pull.headSha);
    if (row?.verdict !== "passed")
      problems.push(`${target.name}: the gated request is ${row?.state ?? "missing"}, ${row?.reason ?? "no reason"}`);
  }
  if (evidence.running !== evidence.expectedPods)
    problems.push(`${evidence.running} of ${evidence.expectedPods} pods ran at once`);
  const known = planned.filter((one) => one.expected === "heard");
  return {
    heard: known.length,
    found,
    strangers: planned.length - known.length,
    githubs: own.all,
    githubsTaken: own.taken,
    requests: gates.reduce((sum, gate) => sum + gate.requests.length, 0),
    pods: world.runpod.bills().length,
    worstBillDifferenceMs: worst,
    problems,
  };
}

/** The local GitHub's own deliveries: what was answered as accepted is in exactly one gate's books. */
function githubs(
  world: Evidence["world"],
  placesOf: ReadonlyMap<string, readonly string[]>,
  problems: string[],
): { readonly all: number; readonly taken: number } {
  const byGuid = Map.groupBy(world.github.books.webhooks, (one) => one.guid);
  let taken = 0;
  for (const [guid, tries] of byGuid) {
    const good = tries.find((one) => one.statusCode >= 200 && one.statusCode < 300);
    if (good === undefined) {
      problems.push(`GitHub's ${tries[0]?.event ?? "delivery"} ${guid} was never taken`);
      continue;
    }
    const ignored = tries.every((one) => one.responseBody.includes("Ignored"));
    const places = placesOf.get(guid) ?? [];
    if (places.length !== (ignored ? 0 : 1))
      problems.push(`GitHub's ${good.event} ${guid} is in the books of ${places.length} gates`);
    if (places.length === 1) taken += 1;
  }
  return { all: byGuid.size, taken };
}

function judgeGate(gate: GateBooks, problems: string[]): void {
  const open = gate.requests.filter((request) => request.state !== "concluded");
  for (const request of open) problems.push(`gate ${gate.repositoryId}: ${request.id} is still ${request.state}`);
  if (gate.lockHolder !== null) problems.push(`gate ${gate.repositoryId}: the lock is held by ${gate.lockHolder}`);
  if (gate.waiting > 0) problems.push(`gate ${gate.repositoryId}: ${gate.waiting} wait for the lock`);
  for (const task of gate.overdue) problems.push(`gate ${gate.repositoryId}: overdue: ${task}`);
  // A head's first answer is its only one here: a second generation would be a delivery that counted twice.
  for (const request of gate.requests.filter((one) => one.generation > 1))
    problems.push(`gate ${gate.repositoryId}: ${request.id} is generation ${request.generation} of its head`);
}

/** Each pod: one closed line, proven gone, gone by RunPod's own books, its estimate near RunPod's own bill. */
function judgePods({ gates, world }: Evidence, problems: string[]): number {
  const lines = new Map(gates.flatMap((gate) => gate.ledger.map((line) => [line.podId, line] as const)));
  let worst = 0;
  for (const bill of world.runpod.bills()) {
    const line = lines.get(bill.podId);
    if (bill.releasedAtMs === null) problems.push(`pod ${bill.podId} still runs`);
    if (line === undefined) problems.push(`pod ${bill.podId} is in no ledger`);
    else if (line.provenAt === null || line.closedAt === null) problems.push(`pod ${bill.podId} is not proven gone`);
    else {
      const difference = Math.abs((line.estimateMicros ?? 0) - bill.microDollars);
      const ms = (difference * 3_600_000) / (bill.ratePerHour * 1_000_000);
      worst = Math.max(worst, Math.round(ms));
      if (ms > BILL_MS) problems.push(`pod ${bill.podId}: the estimate is ${Math.round(ms)} ms beside the bill`);
    }
  }
  for (const podId of lines.keys()) {
    if (!world.runpod.bills().some((bill) => bill.podId === podId))
      problems.push(`pod ${podId} is in a ledger and unknown to RunPod`);
  }
  return worst;
}
