/**
 * Any pull requests at one commit, and anything that people do with them: comparing with GitHub comes to rest, and what the
 * commit's newest check says then is owed to whoever reads it. Being asked about is a model here, of what authorisation and
 * a test say; which of them is asked, and what is given back, is the product's.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import {
  answerFor,
  givenBack,
  heardFrom,
  isGreen,
  needsAnswer,
  nextGeneration,
  testedFor,
  withoutPresses,
} from "../../shared/lifecycle/needs-answer.ts";
import { newRequest, type NewRequest } from "../../shared/lifecycle/new-request.ts";
import { again, APPROVE_BUTTON, route, type RouteAction, type RouteView } from "../../shared/lifecycle/route.ts";
import type { Actor, Signal } from "../../shared/lifecycle/signal.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import { ADMISSION, HEAD, T0, TERMS } from "./fixtures.ts";

const HERE = "101";
const MAY: Actor = { id: "1", login: "mira" };
const MAY_NOT: Actor = { id: "2", login: "walt" };
const PEOPLE = [MAY, MAY_NOT] as const;
const BASES = ["main", "stage"] as const;
type Base = (typeof BASES)[number];

interface Pull {
  readonly number: number;
  readonly author: Actor;
  readonly fork: boolean;
  base: Base;
  open: boolean;
}

type Outcome = "passed" | "failed" | "infrastructure";

type Deed =
  | { readonly kind: "open"; readonly base: Base; readonly fork: boolean; readonly by: 0 | 1; readonly lost: boolean }
  | { readonly kind: "close" | "reopen"; readonly which: number }
  | { readonly kind: "retarget"; readonly which: number; readonly base: Base }
  | { readonly kind: "press" | "approve"; readonly which: number; readonly by: 0 | 1 };

/** A commit, its pull requests and what the gate said of them. */
class Commit {
  readonly pulls: Pull[] = [];
  readonly said: GateRequest[] = [];
  /** What was said by asking. All else was given back, and says nothing new. */
  readonly asked: GateRequest[] = [];
  readonly #code: ReadonlySet<Base>;
  readonly #outcomes: readonly Outcome[];
  #tests = 0;
  #now = T0;

  constructor(code: ReadonlySet<Base>, outcomes: readonly Outcome[]) {
    this.#code = code;
    this.#outcomes = outcomes;
  }

  do(deed: Deed): void {
    switch (deed.kind) {
      case "open": {
        const author = PEOPLE[deed.by];
        const pull = { number: this.pulls.length + 1, author, fork: deed.fork, base: deed.base, open: true };
        this.pulls.push(pull);
        if (!deed.lost) this.#tell(pull, "opened", author);
        return;
      }
      case "close":
      case "reopen":
      case "retarget": {
        const pull = this.pulls[deed.which % Math.max(1, this.pulls.length)];
        if (pull === undefined) return;
        if (deed.kind === "retarget") pull.base = deed.base;
        else if (pull.open === (deed.kind === "reopen")) return;
        else pull.open = deed.kind === "reopen";
        this.#tell(pull, deed.kind === "retarget" ? "edited" : pull.open ? "reopened" : "closed", pull.author);
        return;
      }
      case "press":
      case "approve": {
        const request = this.said[deed.which % Math.max(1, this.said.length)];
        if (request === undefined) return;
        const by = PEOPLE[deed.by];
        if (deed.kind === "press") this.#act(again(this.#view(), HEAD, request, by), by);
        else {
          const press = { kind: "check-run", action: "requested_action", checkRunId: request.id, appId: "1" } as const;
          const button = { name: TERMS.checkName, headSha: HEAD, identifier: APPROVE_BUTTON, sender: by };
          this.#act(route({ ...press, ...button } as Signal, this.#view()), by);
        }
        return;
      }
    }
  }

  /** One comparison with GitHub; how much it had said. */
  compare(): number {
    const before = this.said.length;
    const open = this.pulls.filter((pull) => pull.open);
    for (const pull of open.toSorted((a, b) => Number(a.fork) - Number(b.fork))) {
      const hasLeft = (number: number, base?: string): boolean =>
        !open.some((one) => one.number === number && (base === undefined || one.base === base));
      const asking = { prNumber: pull.number, baseRef: pull.base, fork: pull.fork, hasLeft };
      if (!needsAnswer(this.said, asking)) continue;
      const generation = nextGeneration(this.said);
      const answer = answerFor(this.said, asking);
      if (answer === null) {
        const parts = { prNumber: pull.number, headSha: HEAD, baseRef: pull.base, row: 1, approvedBy: null };
        this.#ask({ kind: "pull-request", ...parts, generation, actor: heardFrom(this.said, asking) });
      } else {
        this.#now += 1_000;
        this.said.push(givenBack(answer, pull.number, `r${this.said.length + 1}`, generation, this.#now));
      }
    }
    return this.said.length - before;
  }

  needsGpu(base: Base): boolean {
    return this.#code.has(base);
  }

  #tell(pull: Pull, action: Extract<Signal, { kind: "pull-request" }>["action"], sender: Actor): void {
    const parts = { prNumber: pull.number, headSha: HEAD, baseRef: pull.base, draft: false, label: null, sender };
    const signal = { kind: "pull-request", action, headRepositoryId: pull.fork ? "102" : HERE, ...parts } as const;
    this.#act(route(signal, this.#view()), sender);
  }

  #act(actions: readonly RouteAction[], by: Actor): void {
    for (const action of actions) {
      if (action.kind === "open") this.#ask(action.request);
      if (action.kind !== "heard") continue;
      const at = this.said.findIndex(({ id }) => id === action.requestId);
      const request = this.said[at];
      if (request === undefined) continue;
      const told = { ...by, ...(action.baseRef === undefined ? {} : { baseRef: action.baseRef }) };
      this.said[at] = { ...request, alsoBy: { ...request.alsoBy, [action.prNumber]: told } };
    }
  }

  #ask(what: NewRequest): void {
    this.#now += 1_000;
    const begun = newRequest(`r${this.said.length + 1}`, what, this.#now);
    const pull = this.pulls.find(({ number }) => number === what.prNumber);
    const { word, ...more } = this.#answer(pull, what);
    const request: GateRequest = {
      ...begun,
      terms: TERMS,
      ...more,
      state: { kind: "concluded", at: this.#now, verdict: word },
    };
    this.said.push(request);
    this.asked.push(request);
  }

  #answer(
    pull: Pull | undefined,
    what: NewRequest,
  ): Pick<Partial<GateRequest>, "admission" | "heldBy"> & { word: Verdict } {
    if (pull === undefined || !pull.open) return { word: verdict("closed", "closed", "It is not open.") };
    const code = this.needsGpu(pull.base);
    if (pull.fork) {
      if (code) return { word: verdict("refused", "fork", "It is a fork's.") };
    } else if (pull.author !== MAY) {
      return { word: verdict("refused", "author-not-permitted", "Its author may not.") };
    } else if (what.actor !== null && what.actor.id !== MAY.id) {
      return { word: verdict("refused", "actor-not-permitted", "Who caused it may not.") };
    }
    const admission = { ...ADMISSION, baseRef: pull.base };
    if (!code) {
      const tested = testedFor(this.said);
      const needing = this.pulls.filter(
        (other) =>
          other.open &&
          other.base !== pull.base &&
          !tested.has(other.base) &&
          !(tested.size > 0 && other.fork) &&
          this.needsGpu(other.base),
      );
      const [first] = needing;
      if (first === undefined) return { admission, word: verdict("not-required", "docs-only", "Words.") };
      const held = (one: Pull) => ({ heldBy: { prNumber: one.number, baseRef: one.base } });
      if (pull.fork) return { ...held(first), word: verdict("refused", "fork", "Code there.") };
      for (const one of needing) {
        if (one.fork) return { ...held(one), word: verdict("refused", "fork", "Code there.") };
        if (one.author !== MAY)
          return { ...held(one), word: verdict("refused", "author-not-permitted", "Code there.") };
      }
    }
    if (what.actor === null) return { admission, word: verdict("awaiting-approval", "actor-unknown", "Who was it?") };
    const outcome = this.#outcomes[this.#tests % this.#outcomes.length];
    this.#tests += 1;
    if (outcome === "failed") return { admission, word: verdict("failed", "tests-failed", "They failed.") };
    if (outcome === "infrastructure")
      return { admission, word: verdict("infrastructure", "github-outage", "It was silent.") };
    return { admission, word: verdict("passed", "tests-passed", "They passed.") };
  }

  #view(): RouteView {
    return {
      appId: "1",
      repositoryId: HERE,
      ofHead: (head, kind) => this.said.filter((one) => one.headSha === head && one.kind === kind),
      ofPull: (number) => this.said.filter((one) => one.prNumber === number),
      open: () => [],
      ofRun: () => null,
      ofCheckRun: (id) => this.said.find((one) => one.id === id) ?? null,
      ofRunner: () => null,
    };
  }
}

/** What was last found out about the change against this base, by a test or by its files. */
function wordFor(said: readonly GateRequest[], base: Base): Verdict["kind"] | null {
  const words = said.flatMap(({ admission, state }) =>
    admission?.baseRef === base && state.kind === "concluded" ? [state.verdict.kind] : [],
  );
  return words.findLast((kind) => ["passed", "failed", "infrastructure", "not-required"].includes(kind)) ?? null;
}

function isForkRefused({ state, heldBy }: GateRequest): boolean {
  return state.kind === "concluded" && state.verdict.reason === "fork" && heldBy === undefined;
}

/** Why the newest check's word may not stand; null: it may. */
function wrongWith(commit: Commit): string | null {
  const last = commit.said.at(-1);
  const open = commit.pulls.filter((pull) => pull.open);
  if (open.length === 0) return null;
  if (last === undefined) return "nothing was said";
  if (isGreen(last)) {
    for (const { number, base, fork } of open) {
      const word = wordFor(commit.asked, base);
      if (!fork && commit.needsGpu(base) && (word === null || word === "failed"))
        return `#${number} is shown a green, and ${base} was ${word ?? "never tested"}`;
    }
    return null;
  }
  const stands = withoutPresses(commit.said).at(-1) ?? last;
  // A fork's pull request for a base without a green earns nothing, and so nothing is given back for its sake.
  const owed = open.filter(
    (one) =>
      !one.fork && one.author === MAY && ["passed", "not-required"].includes(wordFor(commit.asked, one.base) ?? ""),
  );
  if (isGreen(stands)) return owed.length > 0 ? `a refused press stands over the green of #${stands.prNumber}` : null;
  if (isForkRefused(stands) && owed.some((one) => wordFor(commit.asked, one.base) === "passed"))
    return `a fork's refusal stands over a green that was tested`;
  const about = open.find(({ number }) => number === stands.prNumber);
  const base = stands.admission?.baseRef ?? stands.baseRef ?? null;
  const tested = stands.state.kind === "concluded" && ["failed", "infrastructure"].includes(stands.state.verdict.kind);
  if (about === undefined && !(tested && open.some((one) => one.base === base)))
    return `the red word of #${stands.prNumber}, which is gone`;
  if (about !== undefined && base !== null && about.base !== base)
    return `the red word is for ${base}, and #${about.number} is against ${about.base}`;
  const { heldBy } = stands;
  if (heldBy !== undefined && !open.some((one) => one.number === heldBy.prNumber && one.base === heldBy.baseRef))
    return `the red word is for the sake of #${heldBy.prNumber}, which is gone`;
  return null;
}

const base = fc.constantFrom(...BASES);
const by = fc.constantFrom(0 as const, 0 as const, 1 as const);
const which = fc.nat(20);
const deed: fc.Arbitrary<Deed> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("open" as const), base, fork: fc.boolean(), by, lost: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("close" as const, "reopen" as const), which }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("retarget" as const), which, base }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom("press" as const, "approve" as const), which, by }) },
);

const told = ({ prNumber, openedBy, admission, baseRef, state }: GateRequest): string =>
  `#${prNumber} row ${openedBy.row} by ${openedBy.actor?.login ?? "nobody"} ${admission?.baseRef ?? baseRef ?? "?"} ${state.kind === "concluded" ? state.verdict.reason : state.kind}`;

/** Does these deeds, each with a comparison or without one. Says what was wrong at the first rest; null: nothing was. */
function live(commit: Commit, deeds: readonly (readonly [Deed, boolean])[]): string | null {
  for (const [at, [one, compared]] of deeds.entries()) {
    commit.do(one);
    // A comparison may be late: several things are done before it.
    if (!compared && at < deeds.length - 1) continue;
    let rounds = 0;
    // One that has no answer of its own yet gets it in each of them.
    while (rounds <= commit.pulls.length + 2 && commit.compare() > 0) rounds += 1;
    const wrong = rounds > commit.pulls.length + 2 ? "it comes to no rest" : wrongWith(commit);
    if (wrong !== null) return [wrong, ...commit.said.map(told), JSON.stringify(commit.pulls)].join("\n");
  }
  return null;
}

describe("any pull requests at one commit", () => {
  it("come to rest within a few comparisons, at a word that is owed", () => {
    const outcome = fc.constantFrom<Outcome>("passed", "passed", "failed", "infrastructure");
    const outcomes = fc.array(outcome, { minLength: 1, maxLength: 6 });
    const steps = fc.array(fc.tuple(deed, fc.boolean()), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(fc.uniqueArray(base), outcomes, steps, (code, results, deeds) => {
        expect(live(new Commit(new Set(code), results), deeds)).toBeNull();
      }),
      { numRuns: 20_000, seed: 7 },
    );
  });
});
