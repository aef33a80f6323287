/**
 * The wire between the Worker and its providers: sees every call, knows which process sent it, and asks what is to be done
 * with it. A call whose process has been killed meanwhile has left it: it is passed on, and nobody hears the answer.
 */
import { createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Upstream, WireCall } from "./crash-points.ts";

/** What is done to one call. */
export type Fate = "pass" | "kill-before" | "kill-after" | "lose-answer" | "rate-limit";

/** What a call is about, as its method, path and body tell it. */
export type Subject =
  | { readonly kind: "pull"; readonly number: number }
  | { readonly kind: "head"; readonly sha: string }
  | { readonly kind: "check"; readonly id: number }
  | { readonly kind: "run"; readonly id: number }
  | { readonly kind: "dispatch"; readonly request: string; readonly attempt: string | null; readonly testedSha: string }
  | { readonly kind: "runner"; readonly id: number }
  | { readonly kind: "attempt"; readonly name: string }
  | { readonly kind: "pod"; readonly id: string };

const SUBJECTS: readonly (readonly [Upstream, RegExp, (found: string) => Subject])[] = [
  ["github", /\/pulls\/(\d+)(?:\/|\?|$)/, (found) => ({ kind: "pull", number: Number(found) })],
  ["github", /\/check-runs\/(\d+)$/, (found) => ({ kind: "check", id: Number(found) })],
  ["github", /\/commits\/([0-9a-f]{40})\/check-runs/, (found) => ({ kind: "head", sha: found })],
  ["github", /\/actions\/runs\/(\d+)(?:\/|\?|$)/, (found) => ({ kind: "run", id: Number(found) })],
  ["github", /\/actions\/runners\/(\d+)$/, (found) => ({ kind: "runner", id: Number(found) })],
  ["runpod", /^\/v2\/pods\/(\w+)(?:\/|\?|$)/, (found) => ({ kind: "pod", id: found })],
];

/** What a call is about; null for one that is about no pull request in particular: a list, a token, the catalog. */
export function subjectOf(call: WireCall): Subject | null {
  if (call.method === "POST") {
    const sent = fieldsOf(call.body);
    const { inputs } = sent;
    if (call.path.endsWith("/dispatches") && typeof inputs === "object" && inputs !== null) {
      const { request, attempt, tested_sha: tested } = inputs as Readonly<Record<string, unknown>>;
      return {
        kind: "dispatch",
        request: textOf(request),
        attempt: typeof attempt === "string" ? attempt : null,
        testedSha: textOf(tested),
      };
    }
    if (call.path.endsWith("/check-runs")) return { kind: "head", sha: textOf(sent["head_sha"]) };
    const names = call.path.endsWith("/generate-jitconfig") || (call.upstream === "runpod" && call.path === "/v2/pods");
    if (names) return { kind: "attempt", name: textOf(sent["name"]) };
  }
  for (const [upstream, path, subject] of SUBJECTS) {
    const found = call.upstream === upstream ? path.exec(call.path)?.[1] : undefined;
    if (found !== undefined) return subject(found);
  }
  return null;
}

/** The request in a runner's or a pod's name: `gpu-gate-DEPLOYMENT-REPOSITORY-REQUEST-NUMBER`. */
export function requestInName(name: string): string | null {
  return /-(r\w+)-\d+$/.exec(name)?.[1] ?? null;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A JSON object's fields; none for anything else. */
export function fieldsOf(body: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}

/** A call without what is the same for all calls: `POST /actions/runners/generate-jitconfig`. */
export function wordsOf({ method, path }: WireCall): string {
  return `${method} ${path.replace(/^\/repos\/\w+\/\w+/, "").replace(/\?.*$/, "?")}`;
}

export interface WireHands {
  /** Called once for each call, in the order of their arrival. `alive`: its process has not been killed. */
  readonly fate: (call: WireCall, alive: boolean) => Fate;
  /** The provider has answered it. */
  readonly answered: (call: WireCall, status: number, body: string) => void;
  /** Kills the Worker at that call; ends when it is gone. */
  readonly kill: (call: WireCall) => Promise<void>;
  /** Its process was killed elsewhere while the provider answered: there is nobody left to kill at this call. */
  readonly missed: (call: WireCall) => void;
}

export class Wire {
  readonly #hands: WireHands;
  readonly #servers: Server[] = [];
  /** Which of the Worker's processes opened a connection. */
  readonly #opened = new WeakMap<Socket, number>();
  #process = 0;

  constructor(hands: WireHands) {
    this.#hands = hands;
  }

  /** From now on what comes over a connection that is open comes from a dead process. */
  killed(): void {
    this.#process += 1;
  }

  /** A server in front of that provider. Gives its URL. */
  async before(upstream: Upstream, target: string): Promise<string> {
    const server = createServer((incoming, outgoing) => {
      this.#serve(upstream, target, incoming, outgoing).catch(() => outgoing.destroy());
    });
    server.on("connection", (socket: Socket) => this.#opened.set(socket, this.#process));
    this.#servers.push(server);
    return `http://127.0.0.1:${await listening(server)}`;
  }

  close(): void {
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
  }

  async #serve(upstream: Upstream, target: string, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const call = { upstream, method: incoming.method ?? "GET", path: incoming.url ?? "/", body: body.toString() };
    const alive = (): boolean => this.#opened.get(incoming.socket) === this.#process;
    const fate = this.#hands.fate(call, alive());
    if (fate === "kill-before") {
      await this.#hands.kill(call);
      outgoing.destroy();
      return;
    }
    if (fate === "rate-limit") {
      outgoing.writeHead(429, { "content-type": "application/json", "retry-after": "1" }).end("{}");
      return;
    }
    const answer = await forward(target, incoming, body);
    this.#hands.answered(call, answer.status, answer.body.toString());
    if (fate === "kill-after") {
      if (alive()) await this.#hands.kill(call);
      else this.#hands.missed(call);
    }
    if (fate !== "pass") {
      outgoing.destroy();
      return;
    }
    outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  }
}

interface Forwarded {
  readonly status: number;
  readonly headers: Record<string, string | string[]>;
  readonly body: Buffer;
}

function forward(target: string, incoming: IncomingMessage, body: Buffer): Promise<Forwarded> {
  const url = new URL(incoming.url ?? "/", target);
  const headers = { ...incoming.headers, host: url.host };
  return new Promise((resolve, reject) => {
    const call = send(url.href, { method: incoming.method ?? "GET", headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const kept = Object.entries(response.headers).filter(
          (entry): entry is [string, string | string[]] =>
            entry[1] !== undefined && !["connection", "transfer-encoding", "content-length"].includes(entry[0]),
        );
        resolve({ status: response.statusCode ?? 502, headers: Object.fromEntries(kept), body: Buffer.concat(chunks) });
      });
    });
    call.on("error", reject);
    call.end(body);
  });
}

function listening(server: Server): Promise<number> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}
