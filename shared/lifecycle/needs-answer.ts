/**
 * Whether what was last said of a commit still answers for an open pull request that has it as its head.
 *
 * Pure. A check belongs to a commit, so its word is read by every pull request with that head; what it was said about is one
 * change, against one base (docs/adr/what-opens-a-request.md).
 */
import { unreachable } from "../result.ts";
import type { GateRequest } from "./model.ts";
import { conclusionOf, type Verdict } from "./verdict.ts";

/** The kinds of request whose check is a pull request's: a recovery speaks under the same name on the same head. */
const SPEAKING = ["pull-request", "recovery"] as const;

/** What was said of a head to its pull requests, oldest first, whoever asked for it. */
export function answersOf(
  headSha: string,
  ofHead: (headSha: string, kind: GateRequest["kind"]) => readonly GateRequest[],
): readonly GateRequest[] {
  return SPEAKING.flatMap((kind) => ofHead(headSha, kind)).toSorted((a, b) => a.openedAt - b.openedAt);
}

/** The generation that the next request of a kind has, by those of this kind at its head. */
export function nextGeneration(ofKind: readonly GateRequest[]): number {
  return (ofKind.at(-1)?.generation ?? 0) + 1;
}

/**
 * Whether an open pull request needs another answer than the last one about its head: that one was about something that no
 * longer holds (it was closed, the head was away for a while, the base was another, the App was gone), or was made for
 * another pull request at the same commit and has tested nothing. What was tested, or is being tested, is the answer for
 * all of them that have its base. `ofHead`: everything that was said to pull requests of this head, oldest first. `baseRef`: the branch that the pull request targets; null or left out, nobody knows.
 */
export function needsAnswer(
  ofHead: readonly GateRequest[],
  prNumber: number | null,
  baseRef: string | null = null,
): boolean {
  const last = ofHead.at(-1);
  if (last === undefined) return true;
  if (last.state.kind !== "concluded") return false;
  return isOver(last.state.verdict, ofHead, prNumber) || isForAnotherBase(last, ofHead, prNumber, baseRef);
}

function isOver(word: Verdict, ofHead: readonly GateRequest[], prNumber: number | null): boolean {
  switch (word.kind) {
    case "closed":
      return true;
    case "superseded":
      return word.reason === "head-moved" || word.reason === "base-moved";
    case "cancelled":
      return word.reason === "app-removed" || word.reason === "repository-gone";
    case "refused":
      if (word.reason === "base-changed") return true;
      return prNumber !== null && ofHead.every((request) => request.prNumber !== prNumber);
    case "not-required":
      return prNumber !== null && ofHead.every((request) => request.prNumber !== prNumber);
    case "passed":
    case "reused":
    case "failed":
    case "infrastructure":
    case "deadline":
    case "over-budget":
    case "awaiting-approval":
      return false;
    default:
      return unreachable(word.kind, "verdict");
  }
}

/**
 * The last answer is for another base than this pull request's: of no use to it, unless this base was answered green as
 * well, since then the commit's green is earned for both. A red word that was said of another pull request stands for all:
 * another answer that paints it green would be a lie about that one.
 */
function isForAnotherBase(
  last: GateRequest,
  ofHead: readonly GateRequest[],
  prNumber: number | null,
  baseRef: string | null,
): boolean {
  const answered = baseOf(last);
  if (prNumber === null || baseRef === null || answered === null || answered === baseRef) return false;
  if (!isGreen(last)) return last.prNumber === prNumber;
  const own = ofHead.findLast((request) => baseOf(request) === baseRef);
  return own === undefined || !isGreen(own);
}

/** The branch that a request is about: the one it was admitted for, else the one it was said to be for; null: not known. */
function baseOf(request: GateRequest): string | null {
  return request.admission?.baseRef ?? request.baseRef ?? null;
}

function isGreen({ state }: GateRequest): boolean {
  return state.kind === "concluded" && conclusionOf[state.verdict.kind] === "success";
}
