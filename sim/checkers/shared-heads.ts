/**
 * A check belongs to a commit, and a commit to as many pull requests as anybody likes to open. Once the world is healed and quiet,
 * of every open pull request from here whose author may spend:
 *
 *  - a green that stands on its head is deserved by its own change against the base it has now (I4, for each of them);
 *  - a green that it earned by itself is not hidden behind the word about a pull request that is closed or has left the head,
 *    nor, where it was tested, behind the word about a fork's;
 *  - the last word is not about something that is over;
 *  - a refusal of another is not all that there is, and its own is of somebody who had to do with it;
 *  - what needs no GPU is held up by nobody's code that is gone;
 *  - who brought it to its head was heard, so nobody asks who it was.
 *
 * What was tested comes from GitHub's and RunPod's books; of the gate's own record only whom a check speaks of is believed.
 */
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { APP_ID, CI, type CheckRun, type Pull, type Repository } from "../github-model.ts";
import type { GateHost } from "../hosts.ts";
import type { Checker, WorldView } from "../view.ts";
import { isLight, isTested } from "./i4.ts";

/** A check that has its conclusion, and the request whose word it is. */
interface Word {
  readonly check: CheckRun;
  readonly request: GateRequest;
}

const AGGREGATE = "Required checks";
const MAY_SPEND: ReadonlySet<string> = new Set(["maintain", "admin"]);
const OVER: ReadonlySet<string> = new Set(["closed", "head-moved", "base-moved", "base-changed", "draft-gave-way"]);

export function sharedHeads(): Checker {
  const judged = new Map<Repository, number>();
  return {
    name: "shared",
    step(world) {
      for (const host of world.hosts) {
        const { reruns } = host.repository;
        for (const { check, opened } of reruns.slice(judged.get(host.repository) ?? 0)) {
          const problem = rerunProblem(host, check, opened);
          if (problem !== null) return problem;
        }
        judged.set(host.repository, reruns.length);
      }
      return null;
    },
    owed: problemOf,
    end: problemOf,
  };
}

/** Whoever presses a check's button asks about the pull request whose check it is, as long as that is there. */
function rerunProblem({ gate, repository }: GateHost, check: CheckRun, opened: number | null): string | null {
  const whose = gate.store.request(check.externalId?.split(":")[0] ?? "");
  const pull = repository.pulls.get(whose?.prNumber ?? 0);
  if (whose === null || pull?.state !== "open" || pull.headSha !== check.headSha) return null;
  if (whose.kind !== "pull-request" || opened === whose.prNumber) return null;
  return `the check of #${pull.number} was run again, and #${opened ?? "none"} is asked about`;
}

function problemOf(world: WorldView): string | null {
  for (const host of world.hosts) {
    const { repository } = host;
    if (repository.standing !== "ok" || !host.up || host.gate.readOnly) continue;
    for (const pull of repository.pulls.values()) {
      if (!isOurs(repository, pull)) continue;
      const problem = pullProblem(world, host, pull);
      if (problem !== null) return `#${pull.number} (${pull.headSha.slice(0, 8)} for ${pull.baseRef}): ${problem}`;
    }
  }
  return null;
}

/** Open, from here, whole, and of an author who may spend. */
function isOurs(repository: Repository, pull: Pull): boolean {
  if (pull.state !== "open" || pull.draft || pull.conflict || pull.headRepositoryId !== repository.id) return false;
  return MAY_SPEND.has(pull.author.role);
}

function pullProblem(world: WorldView, host: GateHost, pull: Pull): string | null {
  const words = wordsOn(host, pull.headSha);
  const last = words.at(-1);
  if (last === undefined || last.check.status !== "completed") return null;
  const earned = earnedBy(world, host.repository, pull);
  if (last.check.conclusion === "success") {
    return earned === null
      ? `its check is green by ${last.request.id}, and its change was never tested for this base`
      : null;
  }
  const own = words.findLast(({ request }) => request.prNumber === pull.number);
  // Who is refused for the sake of another is held up by that one.
  const about = host.repository.pulls.get(last.request.heldBy?.prNumber ?? last.request.prNumber ?? 0);
  const verdict = last.request.state.kind === "concluded" ? last.request.state.verdict : null;
  if (verdict !== null && OVER.has(verdict.reason)) {
    return `the last word on its head, ${last.request.id} about #${about?.number ?? "none"}, is '${verdict.reason}'`;
  }
  // Reopened by a word that was lost: nobody knows who did that.
  const reopened = words.some(({ request }) => request.prNumber === pull.number && endedAs(request, "closed"));
  if (own === last && last.request.openedBy.actor === null && reopened) return null;
  // Opened in nobody's name, and never heard of while another's answer stood: whose run it was is all there is to go by.
  const heard = words.some(({ request }) => request.alsoBy?.[pull.number] !== undefined);
  if (own === last && last.request.openedBy.actor === null && !heard && verdict?.reason === "actor-not-permitted")
    return null;
  if (own === last) {
    return (
      heldUpProblem(host.repository, pull, last.request) ?? personProblem(host.repository, pull, last.request, words)
    );
  }
  if (about === undefined) return null;
  // Its check may never have been made, or have another name while in shadow.
  const word = host.gate.store.requestsOfHead(pull.headSha, "pull-request").findLast(isAbout(pull)) ?? own?.request;
  const ended = word?.state.kind === "concluded" ? word.state.verdict.reason : null;
  // A refused press says nothing of anybody: what was said before it stands, and that is shared. So is a test for its base.
  const { row } = last.request.openedBy;
  const shared = words.some(
    ({ request, check }) => check.conclusion === "success" && request.admission?.baseRef === pull.baseRef,
  );
  const none = !shared && (ended === null || OVER.has(ended));
  if (row !== 3 && row !== 4 && verdict?.kind === "refused" && none)
    return `it has no answer of its own, and ${last.request.id} about #${about.number} is refused for '${verdict.reason}'`;
  if (own?.check.conclusion !== "success" || earned === null) return null;
  const lost = `its own green (${own.request.id}) is hidden by ${last.request.id} about #${about.number}`;
  const others = [...host.repository.pulls.values()].filter(
    (one) => one !== pull && one.state === "open" && one.headSha === pull.headSha,
  );
  if (about.state !== "open" || about.headSha !== pull.headSha) {
    // A third one from here, refused itself, could be merged by that green: what hides it is as good as its own word.
    return others.some((one) => isRefusedItself(host.repository, one, words))
      ? null
      : `${lost}, which is not here any more`;
  }
  if (about.headRepositoryId === host.repository.id || row === 4) return null;
  if (earned === "tested") return `${lost}, a fork's`;
  // Code that waits at the commit may hold up what needs no GPU; documents may not.
  return others.every(({ files }) => isLight(files)) ? `${lost}, a fork's, though no code is here` : null;
}

/** From here, no draft, and the newest word about it is no green and not that it is over. */
function isRefusedItself(repository: Repository, one: Pull, words: readonly Word[]): boolean {
  if (one.draft || one.headRepositoryId !== repository.id) return false;
  const own = words.findLast(({ request }) => request.prNumber === one.number);
  if (own === undefined || own.check.status !== "completed" || own.check.conclusion === "success") return false;
  return own.request.state.kind === "concluded" && !OVER.has(own.request.state.verdict.reason);
}

function endedAs({ state }: GateRequest, reason: string): boolean {
  return state.kind === "concluded" && state.verdict.reason === reason;
}

function isAbout({ number }: Pull): (request: GateRequest) => boolean {
  return ({ prNumber }) => prNumber === number;
}

/** It needs no GPU, and waits for another at its commit that would need one and may not have it; that one must be there. */
function heldUpProblem(repository: Repository, pull: Pull, { id, kind, state }: GateRequest): string | null {
  const change = repository.changes.get(pull.headSha)?.get(pull.baseRef);
  if (kind !== "pull-request" || state.kind !== "concluded" || change === undefined || !isLight(change.files))
    return null;
  const { reason } = state.verdict;
  if (reason !== "fork" && reason !== "author-not-permitted") return null;
  const holding = [...repository.pulls.values()].some(
    (one) => one.headSha === pull.headSha && one.state === "open" && !isLight(one.files) && !isOurs(repository, one),
  );
  return holding ? null : `${id} is refused for '${reason}' of another at its commit, which is not here any more`;
}

/** Its own word asks who it was, or turns down somebody who had nothing to do with it. */
function personProblem(
  repository: Repository,
  pull: Pull,
  { id, kind, actor, state }: GateRequest,
  words: readonly Word[],
): string | null {
  if (kind !== "pull-request" || state.kind !== "concluded" || !pull.arrivalHeard) return null;
  const { reason } = state.verdict;
  if (reason === "actor-unknown") return `${id} asks who brought it here, which was told`;
  if (reason !== "actor-not-permitted" || actor === null || pull.actors.has(actor.login)) return null;
  // It may have been given back: then it was so when it was said first.
  const said = words.flatMap(({ request }) =>
    request.prNumber === pull.number &&
    request.actor?.id === actor.id &&
    endedAs(request, reason) &&
    request.state.kind === "concluded"
      ? [request.state.at]
      : [],
  );
  const first = Math.min(state.at, ...said);
  // Where GitHub begins no run for those who had to do with it, whoever has one at the commit is all there is to go by.
  const own = [...repository.runs.values()].some(
    (run) =>
      run.path === CI &&
      // Run again, it is of somebody who may have come after that word.
      run.attempt === 1 &&
      (run.headRepositoryId ?? repository.id) === repository.id &&
      run.headSha === pull.headSha &&
      run.createdAt <= first &&
      pull.actors.has(run.triggering.login),
  );
  return own ? `${id} is refused for ${actor.login}, who did nothing to it` : null;
}

/** What was said on a head to its pull requests, oldest first. */
function wordsOn({ repository, gate }: GateHost, headSha: string): readonly Word[] {
  const words: Word[] = [];
  for (const check of repository.checks.values()) {
    if (check.appId !== APP_ID || check.headSha !== headSha || check.name === AGGREGATE) continue;
    if (check.name.endsWith("(shadow)")) continue;
    const request = gate.store.request(check.externalId?.split(":")[0] ?? "");
    if (request?.kind === "pull-request" || request?.kind === "recovery") words.push({ check, request });
  }
  return words;
}

/** How its change against its present base deserves a green; null: it does not. */
function earnedBy(world: WorldView, repository: Repository, pull: Pull): "light" | "tested" | null {
  const change = repository.changes.get(pull.headSha)?.get(pull.baseRef);
  if (change === undefined) return null;
  if (isTested(world, repository, pull.headSha, pull.baseRef)) return "tested";
  return isLight(change.files) ? "light" : null;
}
