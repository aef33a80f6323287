/**
 * Looks for registrations of ours that stayed behind at GitHub, beside reconciling, and orders them gone
 * (`shared/lifecycle/left-runners.ts` says which). Bounded: one reading of the list an hour and twenty orders a round, all of
 * which give way when GitHub's quota is low. What is remembered costs only time when it is lost.
 */
import { describeFailure } from "../../shared/github/failure.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import {
  afterOrder,
  attemptOfName,
  leftRunners,
  LIST_EVERY_MS,
  ordersOf,
  seenLeft,
  stuckRunners,
  TOLD_AFTER_TRIES,
  type LeftRunners,
  type RunnerStanding,
} from "../../shared/lifecycle/left-runners.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import { POD_NAME_PREFIX } from "../../shared/runpod/tags.ts";
import type { GatePorts } from "./ports.ts";
import type { Store } from "./store.ts";
import { readStored } from "./stored-json.ts";

const MEMORY = "left_runners";
const BUSY = "GitHub says that it is running a job";
/** Stuck registrations named one by one; the rest are counted. */
const NAMED = 5;

/** Whose the registration of this name is, as the gate's books stand now. */
export function runnerStanding(name: string, deployment: string, store: Store): RunnerStanding {
  if (!name.startsWith(POD_NAME_PREFIX)) return "foreign";
  const repositoryId = store.repository()?.repository.id ?? "";
  // By our own book first: the deployment may have had another name when it was written.
  const id = store.attemptOfPodName(name) ?? attemptOfName(name, deployment, repositoryId);
  if (id === null) return "foreign";
  const attempt = store.attempt(id);
  if (attempt === null) return "unheard";
  if (store.openLedgerLines().some((line) => line.attempt_id === id)) return "open";
  const request = store.request(attempt.requestId);
  // A record that does not read may be anything, so its attempt may still run.
  if (request === null) return store.isParked(attempt.requestId) ? "open" : "unheard";
  return "attempt" in request.state && request.state.attempt?.id === id ? "open" : "closed";
}

/**
 * One round. `github` has its runners where the newest configuration puts them. Never throws for what GitHub says: what failed
 * is the next round's.
 */
export async function removeLeftRunners(ports: GatePorts, store: Store, github: GitHubClient): Promise<void> {
  const now = ports.clock.now();
  const standingOf = (name: string): RunnerStanding => runnerStanding(name, ports.deployment, store);
  let memory = await listed(remembered(store), standingOf, store, github, now);
  if (memory === null) return;
  for (const { id, name } of ordersOf(memory, standingOf, now)) {
    // Asked anew behind every answer: nothing may be ordered on what was true before it.
    if (standingOf(name) === "open") continue;
    const answer = await github.deleteRunner(id);
    if (!answer.ok && answer.error.reason === "rate-limited") break;
    const why = answer.ok ? (answer.value === "busy" ? BUSY : null) : describeFailure(answer.error);
    memory = afterOrder(memory, id, why);
    store.count(why === null ? "left-runners.removed" : "left-runners.kept");
    const tries = memory.left.find((one) => one.id === id)?.tries ?? 0;
    const told = why === null ? "removed" : tries === TOLD_AFTER_TRIES ? "stuck" : null;
    if (told !== null) store.audit(ports.clock.now(), null, audit(`runner.left-${told}`, null, { runner: name, why }));
  }
  remember(store, memory);
}

/** What the reports say of registrations that GitHub keeps; empty when there are none. */
export function leftRunnerProblems(store: Store): readonly string[] {
  const memory = remembered(store);
  const stuck = memory === null ? [] : stuckRunners(memory);
  if (stuck.length === 0) return [];
  const repositoryId = store.repository()?.repository.id ?? "";
  const lines = stuck
    .slice(0, NAMED)
    .map(
      ({ name, tries, why }) =>
        `The runner ${name} of repository ${repositoryId} is no longer needed and is still registered after ${tries} orders to remove it: ${why ?? "no answer"}.`,
    );
  const more = stuck.length - lines.length;
  return more > 0 ? [...lines, `${more} more runners of repository ${repositoryId} are stuck likewise.`] : lines;
}

/** The memory with the list in it where that is due; null when the list was due and could not be had. */
async function listed(
  before: LeftRunners | null,
  standingOf: (name: string) => RunnerStanding,
  store: Store,
  github: GitHubClient,
  now: Millis,
): Promise<LeftRunners | null> {
  // A clock that was set back does not end the duty.
  const due = before === null || now - before.listedAt >= LIST_EVERY_MS || now < before.listedAt;
  if (!due) return before;
  const answer = await github.listRunners();
  if (!answer.ok) {
    store.count("left-runners.unreadable");
    return before;
  }
  // A list that was cut shows fewer: what it leaves out is found by a later one.
  return seenLeft(answer.value.items, standingOf, before, now);
}

function remembered(store: Store): LeftRunners | null {
  const text = store.meta(MEMORY);
  if (text === null) return null;
  const read = readStored(leftRunners, text);
  return read.ok ? read.value : null;
}

function remember(store: Store, memory: LeftRunners): void {
  const text = JSON.stringify(memory);
  if (store.meta(MEMORY) !== text) store.setMeta(MEMORY, text);
}
