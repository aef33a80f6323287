/**
 * One life as the wire saw it: the calls in their order, which of them were this life's own, and the kills. The world is used
 * for many lives, and the one before may still be closing its checks: its calls are no place to kill this one at.
 */
import type { LifeFacts, WireCall } from "./crash-points.ts";
import { fieldsOf, requestInName, subjectOf, type Subject } from "./crash-wire.ts";

/** What the gate's id for a check of the aggregator begins with; a request's own check begins with the request. */
const AGGREGATES = "aggregate";

/** What the providers' books say about whose things are whose. */
export interface Books {
  /** The gate's ids for its checks at a head, as `REQUEST:NUMBER`, with GitHub's ids. */
  readonly checksOf: (head: string) => readonly { readonly id: number; readonly externalId: string }[];
  /** The test merge of a pull request. */
  readonly mergeOf: (pull: number) => string | null;
  readonly inputsOfRun: (id: number) => Readonly<Record<string, string>> | null;
  readonly nameOfRunner: (id: number) => string | null;
  readonly nameOfPod: (id: string) => string | null;
}

/** What happened, in its order. `reached`: the provider got the call. */
export type LifeEvent =
  | { readonly kind: "call"; readonly call: WireCall; readonly own: boolean; readonly reached: boolean }
  | { readonly kind: "kill"; readonly at: string };

type Facts = { -readonly [K in keyof LifeFacts]: LifeFacts[K] };

export class Life {
  readonly name: string;
  readonly events: LifeEvent[] = [];
  facts: Facts = freshFacts();
  readonly #books: Books;
  readonly #pulls = new Set<number>();
  readonly #heads = new Set<string>();
  readonly #requests = new Set<string>();
  readonly #pods = new Set<string>();

  constructor(name: string, books: Books) {
    this.name = name;
    this.#books = books;
  }

  /** From now on that pull request and its head are this life's. */
  ownPull(number: number, head: string): void {
    this.#pulls.add(number);
    this.#heads.add(head);
  }

  ownHead(head: string): void {
    this.#heads.add(head);
  }

  heads(): readonly string[] {
    return [...this.#heads];
  }

  ownPod(id: string): void {
    this.#pods.add(id);
  }

  /** `own`: about this life. `other`: about something else. `none`: about nothing in particular, so done for whoever is there. */
  whose(call: WireCall): "own" | "other" | "none" {
    const subject = subjectOf(call);
    if (subject === null) return "none";
    return this.#isOwn(subject) ? "own" : "other";
  }

  #isOwn(subject: Subject): boolean {
    const { inputsOfRun, nameOfRunner, nameOfPod, checksOf } = this.#books;
    switch (subject.kind) {
      case "pull":
        return this.#pulls.has(subject.number);
      case "head":
        return this.#heads.has(subject.sha);
      case "check":
        return [...this.#heads].some((head) => checksOf(head).some((check) => check.id === subject.id));
      case "run": {
        const inputs = inputsOfRun(subject.id);
        return inputs !== null && this.#isOwnStart(inputs["request"] ?? "", inputs["tested_sha"] ?? "");
      }
      case "dispatch":
        return this.#isOwnStart(subject.request, subject.testedSha);
      case "attempt":
        return this.#isOwnName(subject.name);
      case "runner":
        return this.#isOwnName(nameOfRunner(subject.id));
      case "pod":
        return this.#pods.has(subject.id) || this.#isOwnName(nameOfPod(subject.id));
    }
  }

  /** A run is this life's by its request, or by the commit that it tests; then so is the request. */
  #isOwnStart(name: string, testedSha: string): boolean {
    const request = name.replace(/\.again$/, "");
    const tested =
      this.#heads.has(testedSha) || [...this.#pulls].some((pull) => this.#books.mergeOf(pull) === testedSha);
    if (tested) this.#requests.add(request);
    return tested || this.#isOwnRequest(request);
  }

  #isOwnName(name: string | null): boolean {
    const request = name === null ? null : requestInName(name);
    return request !== null && this.#isOwnRequest(request);
  }

  #isOwnRequest(request: string): boolean {
    if (this.#requests.has(request)) return true;
    for (const head of this.#heads) {
      for (const { externalId } of this.#books.checksOf(head)) {
        const [id = ""] = externalId.split(":");
        if (id !== AGGREGATES) this.#requests.add(id);
      }
    }
    return this.#requests.has(request);
  }

  /** Takes in a call as it arrives. Gives whose it is. */
  arrived(call: WireCall, reached: boolean): void {
    this.events.push({ kind: "call", call, own: this.whose(call) === "own", reached });
  }

  killed(at: string): void {
    this.events.push({ kind: "kill", at });
  }

  /** Takes in an answer: what this life has come to, by its own calls. */
  answered(call: WireCall, status: number, body: string): void {
    if (status < 200 || status > 299) return;
    if (call.upstream === "runpod" && call.method === "POST" && call.path === "/v2/pods") {
      const { id } = fieldsOf(body);
      if (typeof id === "string" && this.whose(call) === "own") this.ownPod(id);
    }
    if (this.whose(call) !== "own") return;
    if (call.path.endsWith("gpu-gate-prepare.yml/dispatches")) this.facts.prepared = true;
    if (call.path.endsWith("gpu-gate-execute.yml/dispatches")) this.facts.executed = true;
    if (call.path.endsWith("/cancel")) this.facts.cancelled = true;
    if (call.upstream !== "runpod") return;
    if (call.method === "POST" && call.path === "/v2/pods") this.facts.created = true;
    if (call.method === "DELETE") this.facts.deleted = true;
  }
}

export function freshFacts(): Facts {
  return {
    prepared: false,
    executed: false,
    created: false,
    deleted: false,
    cancelled: false,
    provoked: false,
    rerun: false,
    grouped: false,
  };
}
