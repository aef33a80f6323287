/**
 * Whether what was last said of a commit still answers for an open pull request that has it as its head.
 *
 * Pure. A check belongs to a commit, so its word is read by every pull request with that head; what it was said about is one
 * change, against one base (docs/adr/what-opens-a-request.md).
 */
import { unreachable } from "../result.ts";
import type { GateRequest } from "./model.ts";
import type { Actor } from "./signal.ts";
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

/** The pull request that is asked about, as far as whoever asks knows it. What is left out is not known. */
export interface Asking {
  readonly prNumber: number | null;
  /** The branch it targets. */
  readonly baseRef?: string | undefined;
  /** Whether its head is in another repository: its code is then never run, so nothing can be earned by asking. */
  readonly fork?: boolean;
  /** Whether another pull request is known to be open at this head no more. */
  readonly hasLeft?: (prNumber: number) => boolean;
}

/**
 * Whether an open pull request needs another answer than the last one about its head: that one was about something that no
 * longer holds (it was closed, the head was away for a while, the base was another, the App was gone), or was made for
 * another pull request at the same commit and has tested nothing. What was tested, or is being tested, is the answer for
 * all of them that have its base. `ofHead`: everything that was said to pull requests of this head, oldest first.
 */
export function needsAnswer(ofHead: readonly GateRequest[], asking: Asking): boolean {
  const last = ofHead.at(-1);
  if (last === undefined) return true;
  if (last.state.kind !== "concluded") return false;
  const word = last.state.verdict;
  return (
    isOver(last, word, ofHead, asking) ||
    isForAnotherBase(last, word, ofHead, asking) ||
    isOfOneThatLeft(last, word, asking) ||
    isForks(last, word, ofHead, asking)
  );
}

/** The last word about this pull request itself, where it would still be its answer had nothing been said since; null: there is none. */
export function ownAnswer(ofHead: readonly GateRequest[], { prNumber, baseRef }: Asking): GateRequest | null {
  const own = prNumber === null ? undefined : ofHead.findLast((request) => request.prNumber === prNumber);
  return own === undefined || needsAnswer([own], { prNumber, baseRef }) ? null : own;
}

/** What a pull request is asked about with once more, to get back the answer that it had: the word of the same people. */
export function asBefore(own: GateRequest): Pick<GateRequest, "actor" | "approvedBy" | "triggerSeen"> {
  const { actor, approvedBy, triggerSeen } = own;
  return { actor, approvedBy, triggerSeen };
}

/** Who caused a pull request at this head, by the webhook that told of it while another's answer stood; null: not heard. */
export function heardFrom(ofHead: readonly GateRequest[], { prNumber, baseRef }: Asking): Actor | null {
  if (prNumber === null) return null;
  const heard = ofHead.findLast(({ alsoBy }) => alsoBy?.[prNumber] !== undefined)?.alsoBy?.[prNumber];
  if (heard === undefined) return null;
  // For another base than the one it was told with, somebody else may have changed it: that one is nobody's word.
  if (heard.baseRef !== undefined && baseRef !== undefined && heard.baseRef !== baseRef) return null;
  return { id: heard.id, login: heard.login };
}

function isOver(last: GateRequest, word: Verdict, ofHead: readonly GateRequest[], asking: Asking): boolean {
  switch (word.kind) {
    case "closed":
      return true;
    case "superseded":
      return word.reason === "head-moved" || word.reason === "base-moved";
    case "cancelled":
      return word.reason === "app-removed" || word.reason === "repository-gone";
    case "refused":
      if (word.reason === "base-changed") return true;
      return isNew(ofHead, asking);
    case "not-required":
      // For the same base it is the same change: what needs no test for the one needs none for the other.
      return isNew(ofHead, asking) && (asking.baseRef === undefined || baseOf(last) !== asking.baseRef);
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

/** Nothing was ever said at this head about this pull request. */
function isNew(ofHead: readonly GateRequest[], { prNumber }: Asking): boolean {
  return prNumber !== null && ofHead.every((request) => request.prNumber !== prNumber);
}

/**
 * The last answer is for another base than this pull request's: of no use to it, unless this base was answered green as
 * well, since then the commit's green is earned for both. A red word that was said of another pull request stands for all:
 * another answer that paints it green would be a lie about that one. A fork's pull request earns nothing, and a tested green
 * would be lost to whoever earned it: anybody could stop anybody's merge by opening one.
 */
function isForAnotherBase(last: GateRequest, word: Verdict, ofHead: readonly GateRequest[], asking: Asking): boolean {
  const { prNumber, baseRef } = asking;
  if (prNumber === null || !isOfOtherBases(last, baseRef)) return false;
  if (!isGreen(last)) return last.prNumber === prNumber;
  if (asking.fork === true && isEarned(word)) return false;
  const own = ofHead.findLast((request) => baseOf(request) === baseRef);
  return own === undefined || !isGreen(own);
}

/**
 * What is not green was said of a pull request that is gone from this head: it would stand there for ever. What was tested
 * for the same base holds for whoever has the commit; that a pull request may not be tested, or waits for somebody's word, was
 * about that one alone.
 */
function isOfOneThatLeft(last: GateRequest, word: Verdict, { prNumber, baseRef, hasLeft }: Asking): boolean {
  if (prNumber === null || last.prNumber === null || last.prNumber === prNumber || isGreen(last)) return false;
  if (hasLeft?.(last.prNumber) !== true) return false;
  return word.kind === "refused" || word.kind === "awaiting-approval" || isOfOtherBases(last, baseRef);
}

/** A fork's refusal over what a pull request from here was tested for: that was earned, and is asked for once more. */
function isForks(last: GateRequest, word: Verdict, ofHead: readonly GateRequest[], asking: Asking): boolean {
  if (asking.fork !== false || word.kind !== "refused" || word.reason !== "fork") return false;
  if (last.prNumber === asking.prNumber) return false;
  const own = ofHead.findLast(({ prNumber }) => prNumber === asking.prNumber);
  return own?.state.kind === "concluded" && isEarned(own.state.verdict);
}

/** Both are known, and differ. */
function isOfOtherBases(request: GateRequest, baseRef: string | undefined): boolean {
  const answered = baseOf(request);
  return baseRef !== undefined && answered !== null && answered !== baseRef;
}

/** The branch that a request is about: the one it was admitted for, else the one it was said to be for; null: not known. */
function baseOf(request: GateRequest): string | null {
  return request.admission?.baseRef ?? request.baseRef ?? null;
}

/** Whether this is the word of a request that ended well. */
export function isGreen({ state }: Pick<GateRequest, "state">): boolean {
  return state.kind === "concluded" && conclusionOf[state.verdict.kind] === "success";
}

/** Green by a test. */
function isEarned({ kind }: Verdict): boolean {
  return kind === "passed" || kind === "reused";
}
