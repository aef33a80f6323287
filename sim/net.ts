/**
 * The network between everybody. Each exchange has three instants: asked, performed, answered; what goes wrong decides which
 * of the last two happen. A caller that crashed in between never hears, and what it asked for may be done all the same.
 */
import type { FetchLike, Millis } from "../shared/ports.ts";
import type { Faults, FaultKind } from "./faults.ts";
import { SimHeaders, simResponse } from "./answer.ts";
import { disarm, runAs, type Owner } from "./platform.ts";
import type { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export interface NetRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: SimHeaders;
  readonly body: string;
  /** Who asks. */
  readonly caller: string;
  readonly askedAt: Millis;
}

export interface NetAnswer {
  readonly status: number;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Server {
  readonly name: "github" | "runpod" | "issuer";
  /** The operation an exchange is about, for the trace and for aimed faults. */
  operation(method: string, path: string): string;
  perform(request: NetRequest): NetAnswer;
  /** What a fault of this server looks like. */
  fault(kind: "refuses" | "rate-limit" | "outage", request: NetRequest): NetAnswer;
}

type Fate =
  | "done"
  | "refuses"
  | "done-but-500"
  | "done-but-dropped"
  | "unreachable"
  | "hangs"
  | "half-answer"
  | "rate-limit";

const FATES: readonly (readonly [Fate, number])[] = [
  ["refuses", 0.03],
  ["done-but-500", 0.03],
  ["done-but-dropped", 0.03],
  ["unreachable", 0.03],
  ["hangs", 0.01],
  ["half-answer", 0.02],
  ["rate-limit", 0.02],
];

export interface NetHooks {
  /** A boundary of an exchange: the caller may crash here. */
  boundary(owner: Owner, phase: "asked" | "performed" | "answered", operation: string): void;
  /** Before a server performs something: the checkers look. */
  performing(server: Server, operation: string, request: NetRequest): void;
  /** After it has: with what status it answers, and whether its asker hears that. */
  performed(operation: string, request: NetRequest, status: number, heard: boolean): void;
  /** It did nothing: it is down, or refuses everything. */
  refused(operation: string, request: NetRequest): void;
}

/** A call to an object of ours that was not performed. */
export interface Unheard {
  readonly service: string;
  readonly operation: string;
  readonly at: Millis;
}

export class Net {
  calls = 0;
  /** What the account never heard, oldest first. */
  readonly unheard: Unheard[] = [];
  readonly #scheduler: Scheduler;
  readonly #faults: Faults;
  readonly #rng: Prng;
  readonly #trace: Trace;
  readonly #servers: ReadonlyMap<string, Server>;
  readonly #hooks: NetHooks;
  readonly #downUntil = new Map<string, Millis>();

  constructor(
    scheduler: Scheduler,
    faults: Faults,
    rng: Prng,
    trace: Trace,
    servers: Readonly<Record<string, Server>>,
    hooks: NetHooks,
  ) {
    this.#scheduler = scheduler;
    this.#faults = faults;
    this.#rng = rng;
    this.#trace = trace;
    this.#servers = new Map(Object.entries(servers));
    this.#hooks = hooks;
  }

  /** Takes a service down for a while. */
  takeDown(service: string, durationMs: Millis): void {
    this.#downUntil.set(service, this.#scheduler.now + durationMs);
    this.#trace.note(`${service} is down for ${Math.round(durationMs / 1000)} s`);
  }

  isDown(service: string): boolean {
    return (this.#downUntil.get(service) ?? 0) > this.#scheduler.now;
  }

  heal(): void {
    this.#downUntil.clear();
  }

  /** `fetch` as one caller has it. */
  fetchOf(caller: string, owner: () => Owner): FetchLike {
    return (input, init) => this.#fetch(caller, owner(), input, init ?? {});
  }

  async #fetch(caller: string, owner: Owner, input: string, init: RequestInit): Promise<Response> {
    const { host, path, query } = addressOf(input);
    const server = this.#servers.get(host);
    if (server === undefined) throw new Error(`nobody answers at ${host}`);
    const operation = server.operation(init.method ?? "GET", path);
    const request: NetRequest = {
      method: init.method ?? "GET",
      path,
      query: query === "" ? NO_QUERY : new URLSearchParams(query),
      headers: new SimHeaders(init.headers),
      body: typeof init.body === "string" ? init.body : "",
      caller,
      askedAt: this.#scheduler.now,
    };
    return new Promise<Response>((resolve, reject) => {
      this.#exchange(owner, server.name, operation, {
        perform: (fate, settle) => {
          const refusing = fate === "refuses" || fate === "rate-limit" ? fate : null;
          const refusal = this.isDown(server.name) ? "outage" : refusing;
          if (refusal !== null) {
            this.#hooks.refused(operation, request);
            return settle(server.fault(refusal, request));
          }
          this.#hooks.performing(server, operation, request);
          const answer = server.perform(request);
          // An answer without a body has no half.
          const whole = fate === "half-answer" && (answer.status === 204 || answer.status === 304);
          this.#hooks.performed(operation, request, answer.status, fate === "done" || whole);
          settle(answer);
        },
        answer: (fate, answer) => {
          disarm(init.signal);
          const told = fate === "done-but-500" ? server.fault("refuses", request) : answer;
          if (fate === "done-but-dropped") return reject(new TypeError("the connection broke"));
          const body = fate === "half-answer" ? told.body.slice(0, Math.floor(told.body.length / 2)) : told.body;
          const empty = told.status === 204 || told.status === 304;
          resolve(simResponse(told.status, empty ? null : body, told.headers ?? {}));
        },
        broken: () => {
          disarm(init.signal);
          reject(new TypeError("the connection was refused"));
        },
      });
      init.signal?.addEventListener("abort", () => reject(init.signal?.reason), { once: true });
    });
  }

  /** A call to another object of ours. Rejects when the object does not answer. */
  rpc<T>(owner: Owner, service: string, operation: string, perform: () => T | Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      // An instance that has crashed hears of no failure either: it would go on, and write, beside its successor.
      const fail = (error: unknown): void => {
        owner.inFlight -= 1;
        if (owner.alive) runAs(owner, () => reject(error instanceof Error ? error : new Error("failed")));
      };
      this.#exchange<T>(owner, service, operation, {
        perform: (fate, settle) => {
          // An answer from memory or a refusal sets nothing going, and yet its asker goes on: now, not at the next event.
          this.#scheduler.activity += 1;
          if (fate === "refuses" || this.isDown(service)) {
            if (service === "account") this.unheard.push({ service, operation, at: this.#scheduler.now });
            return fail(new Error(`${service} did not answer`));
          }
          let made: T | Promise<T>;
          try {
            made = perform();
          } catch (error) {
            return fail(error);
          }
          if (made instanceof Promise) void made.then(settle, fail);
          else settle(made);
        },
        answer: (fate, value) => {
          if (fate === "done-but-dropped") reject(new Error(`${service}'s answer was lost`));
          else resolve(value);
        },
        broken: () => reject(new Error(`${service} could not be reached`)),
      });
    });
  }

  #exchange<T = NetAnswer>(
    owner: Owner,
    service: string,
    operation: string,
    does: {
      perform: (fate: Fate, settle: (value: T) => void) => void;
      answer: (fate: Fate, value: T) => void;
      broken: () => void;
    },
  ): void {
    this.calls += 1;
    const scheduler = this.#scheduler;
    const fate = this.#fateOf(service);
    owner.inFlight += 1;
    const slow = this.#strikes(service, "slow", 0.03) ? this.#rng.int(1_000, 30_000) : 0;
    const there = this.#rng.int(10, 120) + Math.floor(slow * this.#rng.next());
    const back = this.#rng.int(5, 80) + Math.floor(slow * this.#rng.next());
    const hanging = fate === "hangs" ? this.#rng.chance(0.5) : null;
    this.#trace.call("ask", service, operation, fate);
    this.#hooks.boundary(owner, "asked", operation);
    // A vendor's books change on the spot, and nobody hears of it before the answer.
    const quiet = (service === "github" || service === "runpod") && fate !== "unreachable";
    const perform = (): void => {
      if (fate === "unreachable") {
        owner.inFlight -= 1;
        if (owner.alive) runAs(owner, does.broken);
        scheduler.activity += 1;
        return;
      }
      if (hanging === false) return;
      does.perform(fate, (value) => {
        scheduler.activity += 1;
        this.#hooks.boundary(owner, "performed", operation);
        if (fate === "hangs") return;
        scheduler.in(back, `answer ${service} ${operation}`, () => {
          owner.inFlight -= 1;
          if (!owner.alive) return;
          scheduler.activity += 1;
          this.#trace.call("answer", service, operation, fate, value);
          runAs(owner, () => does.answer(fate, value));
          this.#hooks.boundary(owner, "answered", operation);
        });
      });
    };
    // A request on its way is performed even if whoever sent it is gone meanwhile.
    scheduler.in(there, `perform ${service} ${operation}`, perform, quiet);
  }

  #fateOf(service: string): Fate {
    if (service === "account" || service === "gate") {
      if (this.#faults.strikes("object-fails", 0.03)) return "refuses";
      return this.#faults.strikes("object-done-but-lost", 0.03) ? "done-but-dropped" : "done";
    }
    if (service === "issuer" || service === "worker") return this.#fateOfToken(service);
    if (service === "registry") return this.#faults.strikes("registry-fails", 0.3) ? "refuses" : "done";
    for (const [fate, chance] of FATES) if (this.#strikes(service, fate, chance)) return fate;
    return "done";
  }

  /** The way of an identity token: to the Worker, and from there to the keys that it is checked with. */
  #fateOfToken(service: "issuer" | "worker"): Fate {
    const kind = service === "issuer" ? "issuer-fails" : "job-call-lost";
    if (!this.#faults.strikes(kind, 0.08)) return "done";
    const lost = ["unreachable", "done-but-dropped"] as const;
    return this.#faults.stream(kind).pick(service === "worker" ? lost : [...lost, "refuses", "hangs", "half-answer"]);
  }

  #strikes(service: string, what: string, chance: number): boolean {
    if (service !== "github" && service !== "runpod") return false;
    return this.#faults.strikes(`${service}-${what}` as FaultKind, chance);
  }
}

const NO_QUERY = new URLSearchParams();

/** Of `https://host/path?query`, which is all that is asked for here: the platform's `URL` costs more than the call it is for. */
function addressOf(address: string): { readonly host: string; readonly path: string; readonly query: string } {
  const from = address.indexOf("//") + 2;
  const slash = address.indexOf("/", from);
  const asked = address.indexOf("?", slash);
  const end = asked < 0 ? address.length : asked;
  return { host: address.slice(from, slash), path: address.slice(slash, end), query: address.slice(end + 1) };
}
