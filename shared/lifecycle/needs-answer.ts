/**
 * Whether what was last said of a commit still answers for an open pull request that has it as its head.
 *
 * Pure. A check belongs to a commit, so its word is read by every pull request with that head; what it was said about is one
 * change, against one base (docs/adr/what-opens-a-request.md).
 */
import type { Millis } from "../ports.ts";
import { unreachable } from "../result.ts";
import type { GateRequest } from "./model.ts";
import type { Actor } from "./signal.ts";
import { newRequest } from "./new-request.ts";
import { conclusionOf, verdict, type Verdict } from "./verdict.ts";

/** The kinds of request whose check is a pull request's: a recovery speaks under the same name on the same head. */
const SPEAKING = ["pull-request", "recovery"] as const;

/**
 * What was said of a head to its pull requests, oldest first, whoever asked for it. `shadow`: whether the configuration, as it was
 * last read, has shadow mode on; left out: it was not read. What was said in shadow tested nothing, and stands under another
 * name than the one that is required since: once shadow mode is off it is no answer to anybody.
 */
export function answersOf(
  headSha: string,
  ofHead: (headSha: string, kind: GateRequest["kind"]) => readonly GateRequest[],
  shadow?: boolean,
): readonly GateRequest[] {
  return SPEAKING.flatMap((kind) => ofHead(headSha, kind))
    .filter((request) => shadow !== false || !wasInShadow(request))
    .toSorted((a, b) => a.openedAt - b.openedAt);
}

/** What was said of a merge group's commit and still may be an answer, oldest first; `shadow` as above. */
export function groupAnswersOf(
  headSha: string,
  ofHead: (headSha: string, kind: GateRequest["kind"]) => readonly GateRequest[],
  shadow?: boolean,
): readonly GateRequest[] {
  return ofHead(headSha, "merge-group").filter((request) => shadow !== false || !wasInShadow(request));
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
  /**
   * Whether another pull request is known to be open at this head no more; with a base, for that base no more. Asked only
   * where that decides.
   */
  readonly hasLeft?: (prNumber: number, baseRef?: string) => boolean;
  /** The configuration was read just now, and it can be. */
  readonly rulesRead?: boolean;
}

/**
 * Whether an open pull request needs another answer than the last one about its head: that one was about something that no
 * longer holds (it was closed, the head was away for a while, the base was another, the App was gone), or was made for
 * another pull request at the same commit and has tested nothing. What was tested, or is being tested, is the answer for
 * all of them that have its base. `ofHead`: everything that was said to pull requests of this head, oldest first.
 */
export function needsAnswer(ofHead: readonly GateRequest[], asking: Asking): boolean {
  const said = withoutPresses(ofHead);
  const last = said.at(-1);
  if (last === undefined) return true;
  if (last.state.kind !== "concluded") return false;
  const word = last.state.verdict;
  return (
    isCoveredByPress(ofHead, asking) ||
    isOver(last, word, said, asking) ||
    isForAnotherBase(last, said, asking) ||
    isOfOneThatLeft(last, word, said, asking) ||
    isForks(last, word, said, asking) ||
    isForksUnread(last, word, said, asking)
  );
}

/** The last word about this pull request itself, where it would still be its answer had nothing been said since; null: there is none. */
export function ownAnswer(ofHead: readonly GateRequest[], asking: Asking): GateRequest | null {
  const { prNumber } = asking;
  if (prNumber === null) return null;
  const own = withoutPresses(ofHead).findLast((request) => request.prNumber === prNumber);
  if (own?.state.kind !== "concluded" || needsAnswer([own], asking)) return null;
  return isNobodys(own) && heardFrom(ofHead, asking) !== null ? null : own;
}

/**
 * Whether an answer may be given back as it was. That no test is needed, or that another one stood in the way, was said in view
 * of every open pull request at the commit, and there are others by now: it is asked about anew, which rents nothing where it
 * still holds.
 */
function isGivenBack({ state, heldBy }: GateRequest): boolean {
  return state.kind === "concluded" && state.verdict.kind !== "not-required" && heldBy === undefined;
}

/**
 * What a pull request that needs an answer has coming without being asked about: its own earlier one, or else what another
 * earned by a test of this very commit for the same base. Null: it is to be asked about.
 */
export function answerFor(ofHead: readonly GateRequest[], asking: Asking): GateRequest | null {
  const own = ownAnswer(ofHead, asking);
  if (own === null) return sharedTest(ofHead, asking);
  const failed = isGreen(own) ? failedSince(own, ofHead, asking) : null;
  return failed ?? (isGivenBack(own) ? own : null);
}

/**
 * The same change failed after it was answered green, when it was tested once more for another pull request: given the green, it
 * would be green for both, by anybody's coming and going at the commit.
 */
function failedSince(own: GateRequest, ofHead: readonly GateRequest[], { baseRef }: Asking): GateRequest | null {
  const since = ofHead.slice(ofHead.indexOf(own) + 1).filter((one) => baseOf(one) === (baseRef ?? baseOf(own)));
  const tested = since.findLast(
    ({ state }) => state.kind === "concluded" && (isEarned(state.verdict) || state.verdict.kind === "failed"),
  );
  return tested?.state.kind === "concluded" && !isEarned(tested.state.verdict) ? tested : null;
}

/**
 * The record by which an answer is given back, word for word, where another's had come to stand over it: it was about this
 * commit and this base, and neither has changed. Nobody is asked and nothing is tested, so nobody can spend by taking an answer
 * away. The pods and the money stay with the request that had them.
 */
export function givenBack(answer: GateRequest, to: number, id: string, generation: number, now: Millis): GateRequest {
  const { headSha, baseRef, openedBy, state } = answer;
  if (state.kind !== "concluded") throw new Error(`request ${answer.id} has no answer to give back`);
  const { terms, admission, prepared, approvedBy, actor, triggerSeen, failedSteps, runUrl, tests } = answer;
  const base = baseRef === undefined ? {} : { baseRef };
  const row = { prNumber: to, headSha, ...base, generation, row: 1, actor: openedBy.actor, approvedBy };
  const given: Verdict =
    state.verdict.kind === "passed"
      ? verdict("reused", "given-back", `This commit passed for this base in request ${answer.id}.`)
      : state.verdict;
  return {
    ...newRequest(id, { kind: "pull-request", ...row }, now),
    terms,
    admission,
    prepared,
    actor,
    triggerSeen,
    failedSteps,
    runUrl,
    tests,
    state: { kind: "concluded", at: now, verdict: given },
  };
}

/** What an answer that was to be given back would be shown to, and must not be. */
export interface Misled {
  readonly other: Asking;
  /** The last word, where it is an answer to that other one all the same: it is what is said to it, whosever it was. */
  readonly word: GateRequest | null;
}

/**
 * The pull request, of those that are open at the same head, that a green which was given back would be shown to without being an
 * answer to it. The check is the commit's: it could be merged by that green before anybody had asked about it. Null: there is none.
 */
export function misledBy(given: GateRequest, ofHead: readonly GateRequest[], others: readonly Asking[]): Misled | null {
  if (!isGreen(given)) return null;
  const other = others.find((one) => needsAnswer([...ofHead, given], one));
  if (other === undefined) return null;
  const last = withoutPresses(ofHead).at(-1);
  const isItsWord = last !== undefined && last.prNumber !== other.prNumber && !isGreen(last);
  return { other, word: isItsWord && !needsAnswer(ofHead, other) ? last : null };
}

/**
 * Whether the green that this request ends with would be shown to another pull request at its commit that it may be no answer to: one
 * that waited for it, unless it was told of for the same base, or one whose own word is of another base. `ofHead`: with this request.
 */
export function isShownToOthers(ended: GateRequest, ofHead: readonly GateRequest[]): boolean {
  if (!isGreen(ended) || (ended.kind !== "pull-request" && ended.kind !== "recovery")) return false;
  const known = ofHead.flatMap(({ prNumber }) => (prNumber === null || prNumber === ended.prNumber ? [] : [prNumber]));
  const hasOther = [...new Set(known)].some((prNumber) => {
    const own = withoutPresses(ofHead).findLast((one) => one.prNumber === prNumber);
    if (own?.state.kind !== "concluded" || isGone(own.state.verdict)) return false;
    const fork = OF_A_FORK.includes(own.state.verdict.reason) && own.heldBy === undefined;
    return needsAnswer(ofHead, { prNumber, baseRef: baseOf(own) ?? undefined, fork });
  });
  const waits = (ended.alsoPulls ?? []).some((prNumber) => ended.alsoBy?.[prNumber]?.baseRef !== baseOf(ended));
  return hasOther || waits;
}

/** Its pull request was closed, or had left the head. */
function isGone({ kind, reason }: Verdict): boolean {
  return kind === "closed" || reason === "head-moved";
}

/** Who caused a pull request at this head, by the webhook that told of it while another's answer stood; null: not heard. */
export function heardFrom(ofHead: readonly GateRequest[], { prNumber, baseRef }: Asking): Actor | null {
  if (prNumber === null) return null;
  const own = ofHead.findLast((request) => request.prNumber === prNumber);
  // That the App was gone, shadow mode on, or a draft in the way is nobody's act: who had caused it still has.
  const isNobodysAct = own !== undefined && (wasAway(own) || wasInShadow(own) || gaveWay(own));
  if (isNobodysAct && (baseRef === undefined || baseOf(own) === baseRef)) return own.openedBy.actor ?? own.actor;
  const at = ofHead.findLastIndex(({ alsoBy }) => alsoBy?.[prNumber] !== undefined);
  const heard = ofHead[at]?.alsoBy?.[prNumber];
  // Asked about since: what brings it up again, a changed base for one, is another act.
  if (heard === undefined || ofHead.slice(at + 1).some((request) => request.prNumber === prNumber)) return null;
  // For another base than the one it was told with, somebody else may have changed it: that one is nobody's word.
  if (baseRef !== undefined && heard.baseRef !== baseRef) return null;
  return { id: heard.id, login: heard.login };
}

/** The base that a pull request was last told with while another's answer stood; undefined: not told. */
export function baseHeardOf(ofHead: readonly GateRequest[], prNumber: number): string | undefined {
  return ofHead.findLast(({ alsoBy }) => alsoBy?.[prNumber] !== undefined)?.alsoBy?.[prNumber]?.baseRef;
}

function isOver(last: GateRequest, word: Verdict, ofHead: readonly GateRequest[], asking: Asking): boolean {
  switch (word.kind) {
    case "closed":
      return true;
    case "superseded":
      return word.reason === "head-moved" || word.reason === "base-moved" || word.reason === "draft-gave-way";
    case "cancelled":
      return word.reason === "app-removed" || word.reason === "repository-gone";
    case "refused":
      if (word.reason === "base-changed") return true;
      if (last.heldBy !== undefined && asking.hasLeft?.(last.heldBy.prNumber, last.heldBy.baseRef) === true)
        return true;
      return hasNone(last, ofHead, asking);
    case "not-required":
      // For the same base it is the same change: what needs no test for the one needs none for the other.
      return hasNone(last, ofHead, asking) && (asking.baseRef === undefined || baseOf(last) !== asking.baseRef);
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

/** Somebody who may not spend asked for it again, or for its start: that is no answer to anybody. */
export function isPress({ state, openedBy: { row }, heldBy }: GateRequest): boolean {
  if (state.kind !== "concluded" || (row !== 3 && row !== 4) || state.verdict.kind !== "refused") return false;
  const { reason } = state.verdict;
  // The author is looked at first: asked for again on the check of one who may not spend, it says what that check said.
  return reason === "actor-not-permitted" || (row === 4 && reason === "author-not-permitted" && heldBy === undefined);
}

/** It ended because the App was, or the repository, and both may be back. */
function wasAway({ state }: GateRequest): boolean {
  if (state.kind !== "concluded") return false;
  return state.verdict.reason === "app-removed" || state.verdict.reason === "repository-gone";
}

/** It waited as a draft, and another pull request at its commit did not have to. */
function gaveWay({ state }: GateRequest): boolean {
  return state.kind === "concluded" && state.verdict.reason === "draft-gave-way";
}

/** It was answered in shadow mode. */
function wasInShadow({ state, terms }: GateRequest): boolean {
  return state.kind === "concluded" && terms?.shadow === true;
}

/** It ended because nobody had told who caused it, or because the one who was taken for that may not spend. */
export function isNobodys({ state, openedBy: { row, actor } }: GateRequest): boolean {
  if (state.kind !== "concluded") return false;
  const { reason } = state.verdict;
  return reason === "actor-unknown" || (reason === "actor-not-permitted" && row === 1 && actor === null);
}

/** What was said at a head but for refused presses. A press that is all there is stays: it is what the check says. */
export function withoutPresses(ofHead: readonly GateRequest[]): readonly GateRequest[] {
  const said = ofHead.filter((request) => !isPress(request));
  return said.length > 0 ? said : ofHead;
}

/**
 * A refused re-run stands over a green, this pull request's own among them. What is not green was not this press's to take:
 * given back from under it, a green would be shown to the pull request that was refused or failed. After an approval that was
 * refused, others may still give one.
 */
function isCoveredByPress(ofHead: readonly GateRequest[], asking: Asking): boolean {
  const last = ofHead.at(-1);
  if (last?.openedBy.row !== 4 || !isPress(last)) return false;
  const before = withoutPresses(ofHead).at(-1);
  if (before === undefined || !isGreen(before)) return false;
  const own = ownAnswer(ofHead, asking);
  const waits = own?.state.kind === "concluded" && own.state.verdict.kind === "awaiting-approval";
  if (own !== null && !waits) return isGreen(own);
  // It had the green of another for its base, and that one may be gone by now and be given nothing.
  const shared = newestFor(ofHead, asking);
  return shared !== null && isGreen(shared);
}

/** The newest word for the base that it is known to have, whoever's: it is the same change. Null: there is none. */
function newestFor(ofHead: readonly GateRequest[], { prNumber, baseRef }: Asking): GateRequest | null {
  if (prNumber === null || baseRef === undefined) return null;
  return withoutPresses(ofHead).findLast((request) => baseOf(request) === baseRef) ?? null;
}

/** The newest word for the base that it is known to have, where that is a test that passed; null: it is none. */
function sharedTest(ofHead: readonly GateRequest[], asking: Asking): GateRequest | null {
  const newest = newestFor(ofHead, asking);
  return newest?.state.kind === "concluded" && isEarned(newest.state.verdict) ? newest : null;
}

/** The bases for which the newest word at this head is a test that passed. */
export function testedFor(ofHead: readonly GateRequest[]): ReadonlySet<string> {
  const newest = new Map(ofHead.flatMap((request) => [[baseOf(request), request]] as const));
  return new Set(
    [...newest].flatMap(([base, { state }]) =>
      base !== null && state.kind === "concluded" && isEarned(state.verdict) ? [base] : [],
    ),
  );
}

/** The last word is another's, and this pull request has none of its own that would still be one. */
function hasNone(last: GateRequest, ofHead: readonly GateRequest[], asking: Asking): boolean {
  if (asking.prNumber === null || last.prNumber === asking.prNumber) return false;
  // A fork's earns nothing, and the commit's green is there for whoever is owed it.
  if (asking.fork === true && testedFor(ofHead).size > 0) return false;
  // Given the green of another for its base, it would show that to whom the last word refused.
  return ownAnswer(ofHead, asking) === null && sharedTest(ofHead, asking) === null;
}

/**
 * The last answer is for another base than this pull request's: of no use to it, unless this base was answered green as
 * well, since then the commit's green is earned for both. A red word that was said of another pull request stands for all:
 * another answer that paints it green would be a lie about that one. A fork's pull request earns nothing, and a tested green
 * would be lost to whoever earned it: anybody could stop anybody's merge by opening one.
 */
function isForAnotherBase(last: GateRequest, ofHead: readonly GateRequest[], asking: Asking): boolean {
  const { prNumber, baseRef } = asking;
  if (prNumber === null || !isOfOtherBases(last, baseRef)) return false;
  if (!isGreen(last)) return last.prNumber === prNumber;
  if (asking.fork === true && testedFor(ofHead).size > 0) return false;
  const own = ofHead.findLast((request) => baseOf(request) === baseRef);
  return own === undefined || !isGreen(own);
}

/**
 * What is not green was said of a pull request that is gone from this head: it would stand there for ever. What was tested
 * for the same base holds for whoever has the commit; that a pull request may not be tested, or waits for somebody's word, was
 * about that one alone. So was an end that tested nothing (a silent GitHub, no capacity, no money), where this one was green
 * before: without a green of its own it waits for a person, as nobody asked for a test of it.
 */
function isOfOneThatLeft(last: GateRequest, word: Verdict, ofHead: readonly GateRequest[], asking: Asking): boolean {
  const { prNumber, baseRef, hasLeft } = asking;
  if (prNumber === null || last.prNumber === null || last.prNumber === prNumber || isGreen(last)) return false;
  const own = word.kind === "failed" ? null : ownAnswer(ofHead, asking);
  const ofItAlone = word.kind === "refused" || word.kind === "awaiting-approval" || (own !== null && isGreen(own));
  return (ofItAlone || isOfOtherBases(last, baseRef)) && hasLeft?.(last.prNumber) === true;
}

/** For what none but a fork's pull request is refused: it is one, or its repository was deleted. */
const OF_A_FORK: readonly string[] = ["fork", "head-repository-gone"];

/** A fork's refusal over what a pull request from here was tested for: that was earned, and is asked for once more. */
function isForks(last: GateRequest, word: Verdict, ofHead: readonly GateRequest[], asking: Asking): boolean {
  if (asking.fork !== false || word.kind !== "refused" || !OF_A_FORK.includes(word.reason)) return false;
  // One from here may be refused for a fork's sake as well: that word is its own.
  if (last.prNumber === asking.prNumber || last.heldBy !== undefined) return false;
  const own = ofHead.findLast(({ prNumber }) => prNumber === asking.prNumber);
  if (own?.state.kind === "concluded" && isEarned(own.state.verdict)) return true;
  // What is not green, a wait for approval for one, is its own to be given back; else it had the green of another.
  const answer = ownAnswer(ofHead, asking);
  return answer === null ? sharedTest(ofHead, asking) !== null : !isGreen(answer);
}

/** So often at one head: GitHub may be silent about this very change, however often it is asked. */
const SILENT_TIMES = 3;

/**
 * A fork's pull request was turned down while the configuration could not be read, or GitHub was silent, and both is over.
 * Asked about anew it rents nothing, and documents of a fork are no longer the red word over the greens at their commit. One from
 * here waits for a push or a re-run: nobody's money is spent because a file was repaired.
 */
function isForksUnread(
  last: GateRequest,
  word: Verdict,
  ofHead: readonly GateRequest[],
  { prNumber, fork, rulesRead }: Asking,
): boolean {
  if (fork !== true || rulesRead !== true || last.prNumber !== prNumber) return false;
  if (word.reason !== "github-outage")
    return word.reason === "configuration-invalid" || word.reason === "configuration-missing";
  const isSilent = ({ state }: GateRequest): boolean =>
    state.kind === "concluded" && state.verdict.reason === "github-outage";
  return ofHead.filter((one) => one.prNumber === prNumber && isSilent(one)).length < SILENT_TIMES;
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

/** Whether it waits for its pull request to be a draft no longer, which may take for ever. */
export function isDraftsWait({ state }: Pick<GateRequest, "state">): boolean {
  return state.kind === "waiting" && state.for === "ready";
}

/** Whether this is the word of a request that ended well. */
export function isGreen({ state }: Pick<GateRequest, "state">): boolean {
  return state.kind === "concluded" && conclusionOf[state.verdict.kind] === "success";
}

/** Green by a test. */
function isEarned({ kind }: Verdict): boolean {
  return kind === "passed" || kind === "reused";
}
