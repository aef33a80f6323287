/**
 * The product's edge as an attacker meets it: the real routes, the real signature check, and a real gate for each of two
 * repositories. GitHub and RunPod are not there: every call to them is counted, none is answered.
 */
import { createHmac } from "node:crypto";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { gateView } from "../../durable-objects/gate/view.ts";
import { ok } from "../../shared/result.ts";
import type { AppPorts } from "../../worker/ports.ts";
import { nodeSql, type NodeSql } from "../support/node-sql.ts";
import { ask, ports, SETTINGS, T0 } from "../worker/ports.ts";

export const SECRET = "canary-webhook-present-7b1f02c9";
export const PREVIOUS = "canary-webhook-previous-11d0a4";
export const HEAD = "a".repeat(40);

export interface Boundary {
  readonly ports: AppPorts & { readonly logged: Readonly<Record<string, unknown>>[] };
  readonly gates: Readonly<Record<string, { readonly gate: Gate; readonly sql: NodeSql }>>;
  /** Names of the calls to GitHub, RunPod and the account so far. */
  readonly calls: string[];
  requests(repositoryId?: string): readonly Record<string, unknown>[];
  post(body: string | Uint8Array<ArrayBuffer>, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Signed as GitHub signs. */
  deliver(event: string, body: object | string, guid?: string, secret?: string): Promise<string>;
}

export function openBoundary(secrets: readonly string[] = [SECRET, PREVIOUS]): Boundary {
  const calls: string[] = [];
  const outside = new Proxy({}, { get: (_target, name) => () => calls.push(String(name)) });
  const open = () => {
    const sql = nodeSql();
    const gate = new Gate({
      sql,
      alarm: { set: () => undefined },
      clock: { now: () => T0 },
      random: { next: () => 0.5, bytes: (length: number) => crypto.getRandomValues(new Uint8Array(length)) },
      runpod: outside,
      account: outside,
      github: () => outside,
      publicUrl: "https://gate.test",
      deployment: "testing",
      appId: "1234",
      log: () => undefined,
    } as unknown as GatePorts);
    return { gate, sql };
  };
  const gates: Record<string, { gate: Gate; sql: NodeSql }> = { "101": open(), "102": open() };
  const settings = { ...SETTINGS, webhookSecrets: secrets, allowedRepositories: new Set(Object.keys(gates)) };
  const given = ports({
    settings: ok(settings),
    gate: (id) => {
      const found = gates[id];
      if (found === undefined) throw new Error(`a gate came into being for ${id}`);
      return {
        accept: async (delivery) => found.gate.accept(delivery),
        podCall: (attemptId, nonce, word) => found.gate.podCall(attemptId, nonce, word),
        view: async () => gateView(found.gate.store, found.gate.sql, T0),
      };
    },
  });
  const post: Boundary["post"] = (body, headers = {}) =>
    ask(given, "/github/webhooks", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-github-event": "pull_request",
        "x-github-delivery": "guid-1",
        ...headers,
      },
      body,
    });
  return {
    ports: given,
    gates,
    calls,
    requests: (id = "101") =>
      gates[id]?.sql.exec("SELECT id, head_sha, pr_number, generation FROM requests ORDER BY opened_at") ?? [],
    post,
    deliver: async (event, body, guid = crypto.randomUUID(), secret = SECRET) => {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      const answer = await post(text, {
        "x-github-event": event,
        "x-github-delivery": guid,
        "x-hub-signature-256": signature(text, secret),
      });
      return `${answer.status} ${await answer.text()}`;
    },
  };
}

export function signature(body: string | Uint8Array, secret = SECRET, algorithm = "sha256"): string {
  return `${algorithm}=${createHmac(algorithm, secret).update(body).digest("hex")}`;
}

interface Change {
  readonly action?: string;
  readonly repositoryId?: number;
  readonly owner?: string;
  readonly name?: string;
  readonly installationId?: number;
  readonly headSha?: string;
  readonly headRepositoryId?: number;
  readonly ref?: string;
  readonly number?: number;
}

/** A pull request event of repository 101 as GitHub sends it, unless told otherwise. */
export function pullRequest(change: Change = {}) {
  const { action = "opened", repositoryId = 101, headSha = HEAD, ref = "topic", number = 7 } = change;
  return {
    action,
    number,
    pull_request: {
      number,
      draft: false,
      head: { sha: headSha, ref, repo: { id: change.headRepositoryId ?? repositoryId } },
    },
    repository: {
      id: repositoryId,
      name: change.name ?? `r${repositoryId}`,
      owner: { login: change.owner ?? "octo" },
    },
    installation: { id: change.installationId ?? 77 },
    sender: { id: 5, login: "mira" },
  };
}
