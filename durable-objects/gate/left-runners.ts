/**
 * Looks for registrations of ours that stayed behind at GitHub, beside reconciling, and orders them gone
 * (`shared/lifecycle/left-runners.ts` says which). Bounded: one reading of the list an hour, and a round looks at twenty at the
 * most and orders each gone at most once; all of it gives way when GitHub's quota is low. What is remembered costs only time
 * when it is lost.
 */
import { describeFailure, type GitHubFailure } from "../../shared/github/failure.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import {
  attemptOfName,
  isUnread,
  leftRunners,
  LIST_EVERY_MS,
  lookedAt,
  ordersOf,
  seenLeft,
  stuckRunners,
  TOLD_AFTER_TRIES,
  triedInVain,
  without,
  type LeftRunner,
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

/** GitHub with its runners where the newest configuration puts them, and the address of their list. */
export interface Registrar {
  readonly github: Pick<GitHubClient, "listRunners" | "getRunner" | "deleteRunner">;
  readonly at: string;
}

/** One round. Never throws for what GitHub says: what failed is the next round's. */
export async function removeLeftRunners(ports: GatePorts, store: Store, registrar: Registrar): Promise<void> {
  const now = ports.clock.now();
  const standingOf = (name: string): RunnerStanding => runnerStanding(name, ports.deployment, store);
  let memory = await listed(store, standingOf, registrar, now);
  if (memory === null) return;
  for (const one of ordersOf(memory, standingOf, now)) {
    const done = await removeOne(one, standingOf, registrar.github);
    if (done.kind === "wait") break;
    memory = done.kind === "kept" ? triedInVain(memory, one.id, done.why) : without(memory, one.id);
    store.count(`left-runners.${done.kind}`);
    const tries = memory.left.find(({ id }) => id === one.id)?.tries ?? 0;
    const told = done.kind === "removed" ? "removed" : tries === TOLD_AFTER_TRIES ? "stuck" : null;
    const why = done.kind === "kept" ? done.why : null;
    if (told !== null)
      store.audit(ports.clock.now(), null, audit(`runner.left-${told}`, null, { runner: one.name, why }));
  }
  remember(store, memory);
}

/** `wait`: GitHub's quota is used up. `gone`: it was not there any more, by whomever. `left`: it is not what was listed. */
type Removal =
  | { readonly kind: "removed" | "gone" | "left" | "wait" }
  | { readonly kind: "kept"; readonly why: string };

/** Looks at one and orders it gone. Its standing is asked anew behind every answer: nothing may rest on what was true before it. */
async function removeOne(
  one: LeftRunner,
  standingOf: (name: string) => RunnerStanding,
  github: Registrar["github"],
): Promise<Removal> {
  if (standingOf(one.name) === "open") return { kind: "left" };
  const seen = await github.getRunner(one.id);
  if (!seen.ok) return refused(seen.error);
  switch (lookedAt(one, seen.value, standingOf(one.name))) {
    case "forget":
      return { kind: "left" };
    case "busy":
      return { kind: "kept", why: BUSY };
    case "order": {
      const answer = await github.deleteRunner(one.id);
      if (!answer.ok) return refused(answer.error);
      if (answer.value === "busy") return { kind: "kept", why: BUSY };
      return { kind: answer.value === "deleted" ? "removed" : "gone" };
    }
  }
}

function refused(failure: GitHubFailure): Removal {
  if (failure.reason === "rate-limited") return { kind: "wait" };
  if (failure.reason === "not-found" || failure.reason === "gone") return { kind: "gone" };
  return { kind: "kept", why: describeFailure(failure) };
}

/** What the reports say of registrations that GitHub keeps; empty when there are none. */
export function stuckRunnerNotices(store: Store, now: Millis): readonly string[] {
  const memory = remembered(store);
  const stuck = memory === null ? [] : stuckRunners(memory, now);
  if (stuck.length === 0) return [];
  const repositoryId = store.repository()?.repository.id ?? "";
  const lines = stuck
    .slice(0, NAMED)
    .map(
      ({ name, tries, why }) =>
        `The runner ${name} of repository ${repositoryId} is no longer needed and is still registered after ${tries} tries to remove it: ${why ?? "no answer"}.`,
    );
  const more = stuck.length - lines.length;
  return more > 0 ? [...lines, `${more} more runners of repository ${repositoryId} are stuck likewise.`] : lines;
}

/** GitHub has nothing for this repository: nothing can be removed there, and nobody be told of it. */
export function forgetLeftRunners(store: Store): void {
  if (remembered(store) !== null) store.setMeta(MEMORY, "");
}

/** What this list showed, read anew where that is due; null when it was due and could not be had: nothing old is ordered gone. */
async function listed(
  store: Store,
  standingOf: (name: string) => RunnerStanding,
  { github, at }: Registrar,
  now: Millis,
): Promise<LeftRunners | null> {
  const known = remembered(store);
  const before = known === null || isUnread(known, now) ? null : known;
  // A clock that was set back does not end the duty.
  const fresh = before?.at === at && now >= before.listedAt && now - before.listedAt < LIST_EVERY_MS;
  if (fresh) return before;
  const answer = await github.listRunners();
  if (!answer.ok) {
    store.count("left-runners.unreadable");
    if (answer.error.reason === "not-found" || answer.error.reason === "gone") forgetLeftRunners(store);
    return null;
  }
  // A list that was cut shows fewer: what it leaves out is found by a later one.
  return seenLeft(at, answer.value.items, standingOf, before, now);
}

function remembered(store: Store): LeftRunners | null {
  const text = store.meta(MEMORY);
  if (text === null || text === "") return null;
  const read = readStored(leftRunners, text);
  return read.ok ? read.value : null;
}

function remember(store: Store, memory: LeftRunners): void {
  const text = JSON.stringify(memory);
  if (store.meta(MEMORY) !== text) store.setMeta(MEMORY, text);
}
