/** Pull requests that share one head: which word of one is an answer for another, and which of their webhooks says so. */
import { describe, expect, it } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { answerFor, heardFrom, needsAnswer, ownAnswer } from "../../shared/lifecycle/needs-answer.ts";
import { again, route } from "../../shared/lifecycle/route.ts";
import type { Signal } from "../../shared/lifecycle/signal.ts";
import { ALICE, BOB, HEAD, known, MINUTE, OTHER_HEAD, PULL, requestIn, states, T0, tell, TERMS } from "./fixtures.ts";
import {
  type Change,
  ended,
  SECOND,
  forBase,
  passed,
  refused,
  fork,
  gone,
  pressed,
  viewOf,
  pull,
  COMPARE,
  OPENS,
} from "./shared-commit.ts";

describe("the last word about a shared commit", () => {
  it("is not a fork's of a broken configuration, or a silent GitHub, once that can be read again", () => {
    const asking = { prNumber: 8, baseRef: "stage", fork: true, rulesRead: true };
    for (const reason of ["configuration-invalid", "configuration-missing"] as const) {
      const broken = ended("refused", reason, { ...SECOND, admission: null, baseRef: "stage" });
      expect(needsAnswer([passed, broken], asking)).toBe(true);
      expect(answerFor([passed, broken], asking)).toBe(null);
      // Nobody read it, or it is as broken as before.
      expect(needsAnswer([passed, broken], { ...asking, rulesRead: false })).toBe(false);
      expect(needsAnswer([passed, broken], { prNumber: 8, baseRef: "stage", fork: true })).toBe(false);
      // One from here is asked about by a push or a re-run: that may cost money.
      expect(needsAnswer([passed, broken], { ...asking, fork: false })).toBe(false);
      expect(needsAnswer([passed, broken], { ...asking, prNumber: 7, baseRef: "main" })).toBe(false);
    }
    const silent = ended("infrastructure", "github-outage", { ...SECOND, admission: null, baseRef: "stage" });
    expect(needsAnswer([passed, silent], asking)).toBe(true);
    expect(needsAnswer([passed, silent], { ...asking, fork: false })).toBe(false);
    // It may be silent about this very change for ever.
    expect(needsAnswer([passed, silent, silent, silent], asking)).toBe(false);
    expect(needsAnswer([passed, fork], asking)).toBe(false);
  });

  it("is no way for a fork's pull request to a test of its own, and stands over no green of another base that was not tested", () => {
    const waved = ended("not-required", "docs-only", forBase("main"));
    // Asked about before, so that only the base is in question.
    const before = ended("refused", "fork", { ...SECOND, openedAt: T0 - 1, admission: null, baseRef: "stage" });
    const asking = { prNumber: 8, baseRef: "stage", fork: true };
    expect(needsAnswer([before, waved], asking)).toBe(true);
    expect(needsAnswer([before, passed], asking)).toBe(false);
    expect(needsAnswer([before, ended("reused", "identical-tree", forBase("main"))], asking)).toBe(false);
  });

  it("stands where it is a green of one that has left, and this one's base was answered green as well", () => {
    const there = ended("passed", "tests-passed", { ...SECOND, ...forBase("stage") });
    expect(needsAnswer([passed, there], { prNumber: 7, baseRef: "main", hasLeft: gone })).toBe(false);
  });

  it("gives way to what was earned only where it is a fork's, and only for one that is known to be from here", () => {
    const asking = { prNumber: 7, baseRef: "main" };
    expect(needsAnswer([passed, fork], { ...asking, fork: false })).toBe(true);
    expect(needsAnswer([passed, fork], asking)).toBe(false);
    expect(needsAnswer([passed, refused], { ...asking, fork: false })).toBe(false);
    const reused = ended("reused", "identical-tree", forBase("main"));
    expect(needsAnswer([reused, fork], { ...asking, fork: false })).toBe(true);
  });

  it("is about no other base as long as nobody said about which", () => {
    const unsaid = ended("failed", "tests-failed", { ...SECOND, admission: null });
    expect(needsAnswer([passed, unsaid], { prNumber: 7, baseRef: "main", hasLeft: gone })).toBe(false);
  });
});

describe("a press of who may not", () => {
  const waits = ended("awaiting-approval", "awaiting-approval", forBase("main"));

  it("is nobody's answer, and makes room for no stranger's pull request", () => {
    expect(needsAnswer([waits, pressed(3)], { prNumber: 8, baseRef: "main", fork: true })).toBe(false);
    expect(ownAnswer([waits, pressed(3)], { prNumber: 7, baseRef: "main" })).toBe(waits);
  });

  it.each([
    ["approval", 3],
    ["re-run", 4],
  ] as const)("leaves a commit to be approved by those who may: a refused %s", (_what, row) => {
    const label = { terms: { ...TERMS, start: "label", startWord: "run-gpu" } } as const;
    const labelled = pull("labeled", 7, { label: "run-gpu", sender: ALICE });
    expect(route(labelled, viewOf({ ...waits, ...label }, pressed(row, label)))).toContainEqual(OPENS);
    const comment = { terms: { ...TERMS, start: "comment", startWord: "/gpu run" } } as const;
    const createdAt = new Date(T0 + MINUTE).toISOString();
    const commented: Signal = {
      kind: "comment",
      prNumber: 7,
      commentId: "1",
      firstLine: "/gpu run",
      sender: ALICE,
      createdAt,
    };
    expect(route(commented, viewOf({ ...waits, ...comment }, pressed(row, comment)))).toContainEqual(OPENS);
  });

  it("has what was earned given back, where it was a press to have that once more", () => {
    const asking = { prNumber: 7, baseRef: "main" };
    expect(needsAnswer([passed, pressed(4)], asking)).toBe(true);
    expect(ownAnswer([passed, pressed(4)], asking)).toBe(passed);
    const waved = ended("not-required", "docs-only", forBase("main"));
    expect(needsAnswer([waved, pressed(4)], asking)).toBe(true);
  });

  it.each([
    ["nothing was earned", [ended("failed", "tests-failed", forBase("main")), pressed(4)], { prNumber: 7 }],
    ["somebody's approval is still waited for", [waits, pressed(3)], { prNumber: 7 }],
    ["another pull request earned it", [passed, pressed(4)], { prNumber: 8 }],
    [
      "another pull request earned it for the same base, and this one failed",
      [ended("failed", "tests-failed", forBase("main")), { ...passed, prNumber: 8 }, pressed(4)],
      { prNumber: 7, baseRef: "main" },
    ],
    ["it was earned for another base", [passed, pressed(4)], { prNumber: 7, baseRef: "stage" }],
    ["there is nothing else", [pressed(4)], { prNumber: 7 }],
    ["something was said since", [passed, pressed(4), { ...passed, openedAt: T0 + 2 }], { prNumber: 7 }],
  ] as const)("has nothing given back where %s", (_where, said, asking) => {
    const own = ownAnswer(said, asking);
    expect(needsAnswer(said, asking) && own !== null).toBe(false);
  });
});

describe("what is owed at a shared commit although somebody came between", () => {
  const shares = { prNumber: 8, baseRef: "main", fork: false };
  const third = { id: "r3", generation: 3, openedAt: T0 + 2 };

  it("is the green that one had from another which is gone, under a refused re-run of that one's check", () => {
    expect(needsAnswer([passed, pressed(4)], shares)).toBe(true);
    expect(answerFor([passed, pressed(4)], shares)).toBe(passed);
    const waits = ended("awaiting-approval", "actor-unknown", { ...forBase("main"), prNumber: 8, openedAt: T0 - 1 });
    expect(needsAnswer([waits, passed, pressed(4)], shares)).toBe(true);
  });

  it("is the green, where it was asked for again on the check of one whose author may not spend", () => {
    const by = { openedBy: { row: 4, actor: BOB }, prNumber: 8, baseRef: "main" };
    const press = ended("refused", "author-not-permitted", { ...third, ...by });
    const own = { ...refused, baseRef: "main", openedAt: T0 - 1 };
    expect(needsAnswer([own, passed, press], { prNumber: 7, baseRef: "main" })).toBe(true);
    expect(answerFor([own, passed, press], { prNumber: 7, baseRef: "main" })).toBe(passed);
    const held = { ...press, heldBy: { prNumber: 9, baseRef: "stage" } };
    expect(needsAnswer([passed, held], { prNumber: 7, baseRef: "main" })).toBe(false);
  });

  it("is no green that the same change lost since by a test for another pull request", () => {
    const failed = ended("failed", "tests-failed", { ...SECOND, ...forBase("main") });
    const refusedFork = { ...fork, ...third, prNumber: 9 };
    const asking = { prNumber: 7, baseRef: "main", fork: false };
    expect(needsAnswer([passed, failed, refusedFork], asking)).toBe(true);
    expect(answerFor([passed, failed, refusedFork], asking)).toBe(failed);
    const retested = { ...passed, id: "r4", openedAt: T0 + 1.5 };
    expect(answerFor([passed, failed, retested, refusedFork], asking)).toBe(retested);
  });

  it("is no green of another's, put over the refusal of one that is open", () => {
    const asking = { prNumber: 9, baseRef: "main", fork: false };
    expect(needsAnswer([passed, refused], asking)).toBe(false);
    expect(answerFor([passed, refused], { ...asking, hasLeft: gone })).toBe(passed);
    expect(needsAnswer([passed, refused], { ...asking, hasLeft: gone })).toBe(true);
    expect(needsAnswer([passed, fork], asking)).toBe(true);
  });

  it("is the wait that a fork's refusal was put over", () => {
    const waits = ended("awaiting-approval", "awaiting-approval", forBase("main"));
    const asking = { prNumber: 7, baseRef: "main", fork: false };
    expect(needsAnswer([waits, fork], asking)).toBe(true);
    expect(answerFor([waits, fork], asking)).toBe(waits);
  });

  it("is the green that an end without a test was put over, of a pull request that left", () => {
    const asking = { prNumber: 7, baseRef: "main", hasLeft: gone };
    const ends = [
      ended("infrastructure", "github-outage", { ...SECOND, ...forBase("main") }),
      ended("over-budget", "over-budget", { ...SECOND, ...forBase("main") }),
    ];
    for (const end of ends) {
      expect(needsAnswer([passed, end], asking)).toBe(true);
      expect(answerFor([passed, end], asking)).toBe(passed);
      expect(needsAnswer([passed, end], { ...asking, hasLeft: () => false })).toBe(false);
      // Without a green of its own nobody has asked for a test of it.
      expect(needsAnswer([end], asking)).toBe(false);
    }
    // What failed by a test failed for whoever has the commit.
    expect(needsAnswer([passed, ended("failed", "tests-failed", { ...SECOND, ...forBase("main") })], asking)).toBe(
      false,
    );
  });

  it("is the green that the refusal of a fork was put over whose repository is gone", () => {
    const recovery = { ...SECOND, kind: "recovery", admission: null, baseRef: "stage" } as const;
    const asking = { prNumber: 7, baseRef: "main", fork: false };
    const deleted = ended("refused", "head-repository-gone", recovery);
    expect(needsAnswer([passed, deleted], asking)).toBe(true);
    expect(answerFor([passed, deleted], asking)).toBe(passed);
    expect(needsAnswer([passed, deleted], { ...asking, prNumber: 8, baseRef: "stage", fork: true })).toBe(false);
  });

  it("is approved in the name of the pull request that waits, whoever's check was pressed since", () => {
    const waits = ended("awaiting-approval", "awaiting-approval", { ...forBase("main"), ...third, prNumber: 7 });
    const label = { terms: { ...TERMS, start: "label", startWord: "run-gpu" } } as const;
    const other = { ...passed, prNumber: 8, ...label };
    const press = pressed(4, { ...label, id: "r4", generation: 4, prNumber: 8, openedAt: T0 + 3 });
    const [opens] = route(
      pull("labeled", 7, { label: "run-gpu", sender: ALICE }),
      viewOf(other, { ...waits, ...label }, press),
    );
    expect(opens).toMatchObject({ kind: "open", request: { prNumber: 7, generation: 5, row: 3 } });
  });
});

describe("what was said in shadow", () => {
  const terms = { ...TERMS, shadow: true };
  const shadow = ended("not-required", "shadow-mode", { ...forBase("main"), terms });
  const second = pull("opened", 8, { baseRef: "main" });
  const opens = [{ kind: "open", request: { prNumber: 8, generation: 2, row: 1 } }];

  it("answers whoever has the commit while the configuration has it on, or was not read", () => {
    for (const view of [viewOf(shadow), { ...viewOf(shadow), shadow: true }])
      expect(route(second, view)).not.toMatchObject(opens);
  });

  it("is no answer once it is off; what is under way reads the configuration itself", () => {
    expect(route(second, { ...viewOf(shadow), shadow: false })).toMatchObject(opens);
    const busy = requestIn(states.authorizing(), { terms });
    expect(route(second, { ...viewOf(busy), shadow: false })).toMatchObject([{ kind: "also" }]);
  });

  it("still tells who caused it, for the base that it was said for", () => {
    expect(heardFrom([shadow], { prNumber: 7, baseRef: "main" })).toEqual(shadow.openedBy.actor);
    expect(heardFrom([shadow], { prNumber: 7, baseRef: "stage" })).toBeNull();
    expect(heardFrom([{ ...shadow, terms: TERMS }], { prNumber: 7, baseRef: "main" })).toBeNull();
  });
});

describe("an approval at a commit where two pull requests wait", () => {
  const terms = { ...TERMS, start: "comment", startWord: "/gpu run" } as const;
  const first = ended("awaiting-approval", "awaiting-approval", { ...forBase("main"), terms });
  const second = { ...first, ...SECOND, ...forBase("stage") };
  const word = { firstLine: "/gpu run", sender: ALICE, createdAt: new Date(T0 + MINUTE).toISOString() };
  const said = (prNumber: number): Signal => ({ kind: "comment", prNumber, commentId: "1", ...word });
  const labelled = (...requests: readonly GateRequest[]) =>
    requests.map((one) => ({ ...one, terms: { ...TERMS, start: "label", startWord: "run-gpu" } as const }));
  const button = (whose: GateRequest): Signal => ({
    kind: "check-run",
    action: "requested_action",
    checkRunId: "1",
    name: "CI GPU gate",
    headSha: HEAD,
    externalId: `${whose.id}:0`,
    appId: "1",
    identifier: "approve-gpu-run",
    sender: ALICE,
  });
  const opens = (prNumber: number) => [
    { kind: "open", request: { prNumber, generation: 3, row: 3, approvedBy: ALICE } },
  ];

  it.each([7, 8])("is of the one where it was said, by comment, label or button: #%i", (prNumber) => {
    const whose = prNumber === 7 ? first : second;
    expect(route(said(prNumber), viewOf(first, second))).toMatchObject(opens(prNumber));
    expect(route(button(whose), viewOf(first, second))).toMatchObject(opens(prNumber));
    const label = pull("labeled", prNumber, { label: "run-gpu", sender: ALICE });
    expect(route(label, viewOf(...labelled(first, second)))).toMatchObject(opens(prNumber));
  });

  it("is of one that shows the other's wait, having no word of its own, and of none that was refused", () => {
    const label = pull("labeled", 7, { label: "run-gpu", sender: ALICE });
    expect(route(label, viewOf(...labelled(second)))).toMatchObject(opens(7));
    const refusal = ended("refused", "author-not-permitted", forBase("main"));
    expect(route(label, viewOf(...labelled(refusal, second)))).toEqual([
      { kind: "note", why: "this pull request does not wait for approval" },
    ]);
  });
});

describe("a webhook of one of several pull requests at a head", () => {
  it("still has its own open requests look, where GitHub is compared with as well", () => {
    const open = requestIn(states.queued(), { id: "r3", prNumber: 8, headSha: OTHER_HEAD, openedAt: T0 - 5 });
    const actions = route(pull("closed", 8), viewOf(open, passed, refused));
    expect(actions).toContainEqual({ kind: "hint", requestId: "r3" });
    expect(actions).toContainEqual(COMPARE);
  });

  it.each([
    ["a late word of the same head", pull("synchronize", 8), [passed, refused]],
    [
      "a green",
      pull("closed", 8),
      [passed, ended("passed", "tests-passed", { ...SECOND, id: "r3", generation: 3, openedAt: T0 + 2 })],
    ],
    ["what is still under way", pull("closed", 8), [passed, requestIn(states.queued(), SECOND)]],
  ] as const)("leaves nothing to compare behind: %s", (_what, signal, there) => {
    expect(route(signal, viewOf(...there))).not.toContainEqual(COMPARE);
  });

  it("leaves one behind under a refused press, and where it never had a request of its own", () => {
    const press = ended("refused", "actor-not-permitted", {
      id: "r3",
      openedBy: { row: 4, actor: BOB },
      openedAt: T0 + 2,
    });
    expect(route(pull("closed", 8), viewOf(passed, refused, { ...press, generation: 3 }))).toContainEqual(COMPARE);
    const held = ended("refused", "fork", { ...forBase("main"), heldBy: { prNumber: 9, baseRef: "stage" } });
    expect(route(pull("closed", 9), viewOf(held))).toContainEqual(COMPARE);
  });

  it("leaves a word behind for those that had to wait", () => {
    const waited = { ...refused, alsoPulls: [9] };
    expect(route(pull("closed", 8), viewOf(waited))).toContainEqual(COMPARE);
  });

  it("says who caused another, with the base that it told, and never its own answer's", () => {
    const open = requestIn(states.queued());
    const told = { prNumber: 8, baseRef: "stage" };
    expect(route(pull("opened", 8, { baseRef: "stage" }), viewOf(open))).toContainEqual({
      kind: "also",
      requestId: "r1",
      ...told,
    });
    const own = route(pull("synchronize", 7, { baseRef: "main" }), viewOf(passed));
    expect(own).not.toContainEqual(expect.objectContaining({ kind: "heard" }));
  });

  it("does not make a fork of it as long as the repository's id is not known", () => {
    const view = { ...viewOf(passed), repositoryId: null };
    expect(route(pull("opened", 8, { baseRef: "stage" }), view)).toContainEqual(COMPARE);
  });

  it("has the comparison give back what a fork's refusal covered, and opens at once where there is nothing to give", () => {
    const covered = route(pull("reopened", 7, { baseRef: "main" }), viewOf(passed, fork));
    expect(covered).toContainEqual(COMPARE);
    expect(covered).not.toContainEqual(OPENS);
    const unheard = route(pull("reopened", 9, { baseRef: "stable" }), viewOf(passed, fork));
    expect(unheard).toContainEqual(OPENS);
    expect(unheard).not.toContainEqual(COMPARE);
  });
});

describe("the press on a check among several", () => {
  const validation = (change: Change): GateRequest =>
    ended("passed", "tests-passed", { kind: "validation", prNumber: null, ...change });

  it("asks about that one's revision", () => {
    const one = validation({ revision: "1".repeat(40) });
    const two = validation({ id: "r2", generation: 2, openedAt: T0 + 1, revision: "2".repeat(40) });
    expect(again(viewOf(one, two), HEAD, one, BOB)).toMatchObject([
      { kind: "open", request: { revision: "1".repeat(40), generation: 3 } },
    ]);
  });

  it("has the approval that one had, by the person who presses", () => {
    const own = { ...passed, approvedBy: ALICE };
    expect(again(viewOf(own, refused), HEAD, own, BOB)).toMatchObject([{ request: { prNumber: 7, approvedBy: BOB } }]);
    expect(again(viewOf(own, refused), HEAD, refused, BOB)).toMatchObject([
      { request: { prNumber: 8, approvedBy: null } },
    ]);
  });

  it("on an older check has the approval that its pull request got since", () => {
    const waits = ended("awaiting-approval", "awaiting-approval", { openedAt: T0 - 1 });
    const since = { ...passed, id: "r2", generation: 2, approvedBy: ALICE };
    expect(again(viewOf(waits, since), HEAD, waits, BOB)).toMatchObject([
      { request: { prNumber: 7, approvedBy: BOB, generation: 3 } },
    ]);
  });

  it("of another commit asks about the newest of this one", () => {
    const elsewhere = { ...refused, headSha: OTHER_HEAD };
    expect(again(viewOf(passed, elsewhere), HEAD, elsewhere, BOB)).toMatchObject([
      { request: { prNumber: 7, headSha: HEAD } },
    ]);
  });
});

describe("the trigger run of a pull request whose webhook said who caused it", () => {
  const heard = requestIn(states.waiting("trigger"), { actor: ALICE });
  const run = { path: TERMS.workflows.trigger, headSha: HEAD };

  /** Which run is looked for next, after a look at this time that found none. */
  function wanted(request: GateRequest, now: number) {
    const none = { pull: known(PULL), triggerRun: known(null) };
    const { request: next, task } = tell(request, { task: "observe", outcome: none }, now);
    expect(next.state).toEqual(request.state);
    return task?.task.kind === "observe" ? task.task.want.triggerRun : null;
  }

  it("is that person's alone for two minutes, and anybody's after that where that person has none", () => {
    expect(wanted(heard, T0)).toEqual({ ...run, by: ALICE.id, author: ALICE.id, orAnybodys: false });
    expect(wanted(heard, T0 + 119_999)).toEqual({ ...run, by: ALICE.id, author: ALICE.id, orAnybodys: false });
    expect(wanted(heard, T0 + 120_000)).toEqual({ ...run, by: ALICE.id, author: ALICE.id, orAnybodys: true });
  });

  it("is anybody's at the last look, where the wait is configured shorter than that", () => {
    const until = T0 + MINUTE;
    const short = requestIn({ kind: "waiting", for: "trigger", since: T0, until }, { actor: ALICE });
    expect(wanted(short, until - 16_000)).toEqual({ ...run, by: ALICE.id, author: ALICE.id, orAnybodys: false });
    expect(wanted(short, until - 15_000)).toEqual({ ...run, by: ALICE.id, author: ALICE.id, orAnybodys: true });
  });

  it("is anybody's at once where nobody was heard", () => {
    expect(wanted({ ...heard, actor: null }, T0)).toEqual(run);
  });
});
