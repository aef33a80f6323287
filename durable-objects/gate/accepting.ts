/**
 * Accepting signals: a verified delivery is deduped, routed and acted on in one transaction, keyed on processed. A delivery
 * that was not committed is as good as never seen, so GitHub's next attempt at it finds everything to do.
 */
import {
  answerFor,
  givenBack,
  misledBy,
  needsAnswer,
  nextGeneration,
  type Asking,
} from "../../shared/lifecycle/needs-answer.ts";
import { type NewRequest } from "../../shared/lifecycle/new-request.ts";
import { again, route, type RouteAction } from "../../shared/lifecycle/route.ts";
import type { RouteView } from "../../shared/lifecycle/route.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import type { Actor, Delivery, Signal } from "../../shared/lifecycle/signal.ts";
import { audit } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import { unreachable } from "../../shared/result.ts";
import type { Inside } from "./inside.ts";
import type { Steps } from "./steps.ts";
import { beginUninvited } from "./uninvited.ts";

export type Accepted = { readonly kind: "accepted" | "duplicate" | "read-only"; readonly actions: readonly string[] };

/** What GitHub said of a pull request beside what a request keeps. */
export interface About extends Pick<Asking, "fork" | "hasLeft"> {
  /** The other open pull requests from here at its head, as GitHub's list has them. */
  readonly others?: readonly Asking[];
}

/** Before the hash of a body, where guids are kept. */
const BODY = "body:";

/** What a person asked for, or that everything ends: once for each time it was said. All else is harmless when repeated. */
function mustHappenOnce(action: RouteAction): boolean {
  return (
    action.kind === "stop" ||
    action.kind === "asked" ||
    (action.kind === "open" && action.request.row >= 3 && action.request.row !== 5)
  );
}

const FOREIGN = "check.look-alike";

/** Everything here runs inside a transaction of the caller's. */
export class Accepting {
  readonly #inside: Inside;
  readonly #steps: Steps;

  constructor(inside: Inside, steps: Steps) {
    this.#inside = inside;
    this.#steps = steps;
  }

  accept(delivery: Delivery, now: Millis): Accepted {
    const { store, aggregates, ports } = this.#inside;
    // The guid is a header and not signed: sent again under another one, a body that made something begin or end is known.
    const body = delivery.bodyHash === undefined ? null : `${BODY}${delivery.bodyHash}`;
    if (store.delivered(delivery.guid) || (body !== null && store.delivered(body))) {
      store.count("deliveries.duplicate");
      return { kind: "duplicate", actions: [] };
    }
    const foreign = this.#isForeign(delivery);
    // A word of the past, or of elsewhere, must not change where this repository is believed to be.
    if (!foreign) store.rememberRepository(delivery.repository, delivery.installationId);
    const actions = foreign ? [] : route(delivery.signal, this.#view());
    const by = "sender" in delivery.signal ? delivery.signal.sender : null;
    const said = actions.map((action) => this.#act(action, now, by));
    aggregates.hear(delivery.signal, ports.appId, now);
    if (!foreign) this.#noteForeignCheck(delivery.signal);
    const outcome = said.join("; ").slice(0, 500);
    store.markDelivered(delivery.guid, delivery.event, now, outcome);
    // "Removed" says neither when nor which time: once the repository is back, the next removal has the bytes of the last and
    // must be heard. A suspension carries its own time.
    const { signal } = delivery;
    if (!foreign && signal.kind === "installation" && signal.action === "added") {
      store.forgetBodies("installation_repositories");
    }
    if (body !== null && actions.some(mustHappenOnce)) store.markDelivered(body, delivery.event, now, outcome);
    store.count(`deliveries.${delivery.event}`);
    return { kind: "accepted", actions: said };
  }

  /** Opens a request for a head without an answer that stands; nothing where there is one. `about`: what GitHub said of its pull request. */
  openIfUnknown(what: NewRequest, about: About, now: Millis): string | null {
    const { store } = this.#inside;
    if (store.isHeadParked(what.headSha, what.kind)) return null;
    const ofKind = store.requestsOfHead(what.headSha, what.kind);
    const known =
      what.kind === "merge-group" ? this.#inside.groupAnswersAt(what.headSha) : this.#inside.answersAt(what.headSha);
    const asking = { ...about, prNumber: what.prNumber ?? 0, baseRef: what.baseRef };
    const generation = nextGeneration(ofKind);
    if (!needsAnswer(known, asking)) {
      const renamed = this.#underAnotherName(known, asking.prNumber);
      return renamed === null ? null : this.#steps.giveBack(renamed, asking.prNumber, generation, now);
    }
    const answer = answerFor(known, asking);
    if (answer !== null) {
      const misled = misledBy(givenBack(answer, asking.prNumber, "", generation, now), known, about.others ?? []);
      if (misled === null) return this.#steps.giveBack(answer, asking.prNumber, generation, now);
      // It is asked about in its own turn, and its word is the one that stands.
      const { word, other } = misled;
      return word === null ? null : this.#steps.giveBack(word, other.prNumber ?? 0, generation, now);
    }
    return this.#steps.open(
      { ...what, actor: what.actor ?? this.#inside.heardAt(what.headSha, asking), generation },
      now,
    );
  }

  /**
   * The last word about a commit, as it reads under the check's present name; null: it has that name, or is not to be repeated.
   * A required check that was renamed would be waited for until the next push, with its answer under a name nobody asks for.
   */
  #underAnotherName(known: readonly GateRequest[], prNumber: number): GateRequest | null {
    const config = this.#inside.lastConfig();
    const last = known.at(-1);
    if (config === null || config.shadow || last?.state.kind !== "concluded" || last.terms === null) return null;
    // Of another pull request at the commit it is that one's word, and said again when that one is asked about.
    if (last.prNumber !== prNumber || last.kind === "merge-group") return null;
    const { name } = config.check;
    if (last.terms.shadow || last.terms.checkName === name) return null;
    return { ...last, terms: { ...last.terms, checkName: name } };
  }

  /** Row 4 for the head of this request: what a person asked for by starting one of our runs again. */
  askAgain(owner: GateRequest, by: Actor, now: Millis): void {
    for (const action of again(this.#view(), owner.headSha, owner, by)) this.#act(action, now, by);
  }

  /**
   * Word of an installation as a whole goes to every gate: most are not of it. And the end of an installation that this
   * repository has left says nothing about it, even where it is named.
   */
  #isForeign({ signal, repository, installationId }: Delivery): boolean {
    if (signal.kind !== "installation") return false;
    const known = this.#inside.store.repository()?.installationId ?? null;
    if (repository.name === "") return known !== installationId;
    const ends = signal.action === "deleted" || signal.action === "removed" || signal.action === "suspend";
    return ends && known !== null && known !== installationId;
  }

  /**
   * Another App made a check of our name on a head of ours: GitHub shows both, and where the rule is not pinned to this App it
   * takes either. It is never read here; the audit has it, once for each request and App.
   */
  #noteForeignCheck(signal: Signal): void {
    const { store, ports } = this.#inside;
    if (signal.kind !== "check-run" || signal.appId === null || signal.appId === ports.appId) return;
    if (signal.action !== "created" && signal.action !== "completed") return;
    const { headSha: head, name, appId: app } = signal;
    // Asked first: the checks of a busy head are many, and none of them costs a read.
    if (name !== this.#inside.lastConfig()?.check.name) return;
    for (const kind of ["pull-request", "merge-group"] as const) {
      const request = store.requestsOfHead(head, kind).at(-1);
      if (request === undefined) continue;
      const facts = { head, name, app };
      const known = store.auditOf(request.id).some((row) => row.act === FOREIGN && row.facts === JSON.stringify(facts));
      if (!known) this.#inside.audit(request.id, audit(FOREIGN, "foreign-check", facts));
    }
  }

  /** Does what routing decided, and says it in a few words. `by`: who acted, where the signal says. */
  #act(action: RouteAction, now: Millis, by: Actor | null): string {
    const { store } = this.#inside;
    switch (action.kind) {
      case "open":
        // A record that does not read holds this head's generation: opening another would only collide with it.
        if (store.isHeadParked(action.request.headSha, action.request.kind)) return "note: a parked request";
        return `open ${this.#steps.open(action.request, now)}`;
      case "hint":
        this.#steps.apply(
          action.requestId,
          action.stranger === undefined ? { kind: "hint" } : { kind: "hint", stranger: action.stranger },
        );
        return `hint ${action.requestId}`;
      case "asked": {
        const facts = { row: action.row, actor: action.actor.id };
        this.#inside.audit(action.requestId, audit("request.asked-again", "request-open", facts));
        return `asked ${action.requestId}`;
      }
      case "heard":
        this.#remember(action, by, null);
        return `heard ${action.requestId}`;
      case "also": {
        this.#remember(action, by, action.prNumber);
        this.#inside.audit(action.requestId, audit("request.shared", "request-open", { pullRequest: action.prNumber }));
        return `also ${action.requestId}`;
      }
      case "actor": {
        const request = store.request(action.requestId);
        if (request !== null) store.saveRequest({ ...request, actor: action.actor });
        this.#inside.audit(action.requestId, audit("request.actor", null, { actor: action.actor.id }));
        return `actor ${action.requestId}`;
      }
      case "base": {
        const request = store.request(action.requestId);
        if (request !== null) store.saveRequest({ ...request, baseRef: action.baseRef });
        return `base ${action.requestId}`;
      }
      case "stop":
        this.#steps.stop(action.requestId, action.verdict);
        return `stop ${action.requestId}`;
      case "uninvited":
        return beginUninvited(store, action.requestId, action.run, now)
          ? `uninvited attempt ${action.run.attempt} of ${action.run.runId}`
          : "note: this attempt is known";
      case "reconcile":
        store.putTask("reconcile", "repository", "reconcile", {}, now, now);
        return "reconcile";
      case "note":
        return `note: ${action.why}`;
      default:
        return unreachable(action, "routing");
    }
  }

  /** Who told of another pull request at the head of this request; `waits`: its number, where it waits for this one. */
  #remember(
    { requestId, prNumber, baseRef }: Extract<RouteAction, { kind: "also" | "heard" }>,
    by: Actor | null,
    waits: number | null,
  ): void {
    const { store } = this.#inside;
    const request = store.request(requestId);
    if (request === null) return;
    const told = by === null ? null : { ...by, ...(baseRef === undefined ? {} : { baseRef }) };
    store.saveRequest({
      ...request,
      ...(waits === null ? {} : { alsoPulls: [...(request.alsoPulls ?? []), waits] }),
      ...(told === null ? {} : { alsoBy: { ...request.alsoBy, [prNumber]: told } }),
    });
  }

  #view(): RouteView {
    const { store, ports } = this.#inside;
    return {
      appId: ports.appId,
      repositoryId: store.repository()?.repository.id ?? null,
      shadow: this.#inside.lastConfig()?.shadow,
      ofHead: (headSha, kind) => store.requestsOfHead(headSha, kind),
      ofPull: (prNumber) => store.requestsOfPull(prNumber),
      open: () => store.openRequests(),
      ofRun: (runId) => store.requestOfRun(runId),
      ofCheckRun: (checkRunId) => store.requestOfCheckRun(checkRunId),
      ofRunner: (runnerId) => store.requestOfRunner(runnerId),
    };
  }
}
