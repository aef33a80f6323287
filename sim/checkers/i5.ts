/**
 * I5: no secret where it does not belong. Every secret that exists in this world is known to its providers; none may stand
 * in what is sent to GitHub, in a log line, in an address, in a view of a request, in a row, or in a header for somebody else;
 * a pod gets what is on the list and nothing else, its own secrets in their variables and no other pod's.
 */
import { POD_ENV, POD_FACTS } from "../../shared/runpod/create-body.ts";
import { GPU_GATE_TAGS } from "../../shared/runpod/tags.ts";
import { requestView } from "../../durable-objects/gate/view.ts";
import type { Sql } from "../../durable-objects/gate/ports.ts";
import type { NetRequest } from "../net.ts";
import { appKey } from "../platform.ts";
import { SecretBook } from "./secret-book.ts";
import type { Checker, WorldView } from "../view.ts";

const ALLOWED = new Set<string>([
  ...Object.values(POD_ENV),
  ...Object.values(POD_FACTS),
  ...Object.values(GPU_GATE_TAGS),
]);

/** Tables whose rows were looked at before there was a list of them; every table there is comes with it. */
const TABLES = ["requests", "audit", "attempts", "tasks", "deliveries", "meta"];
const AT_RUNPOD = new Set([
  "createPod",
  "listPods",
  "getPod",
  "deletePod",
  "getPodLogs",
  "billing",
  "openapi",
  "catalog",
  "graphql",
]);

export function i5(): Checker {
  let read = 0;
  let acts = 0;
  const books = new Books();
  return {
    name: "I5",
    performing(world, operation, request) {
      const { every, ofGitHub, ofRunPod } = books.of(world);
      const query = request.query.toString();
      if (every.isIn(query === "" ? request.path : `${request.path}?${query}`))
        return `the address of ${operation} holds a secret`;
      // Each provider is shown its own key, and nobody else's.
      const foreign = AT_RUNPOD.has(operation) ? ofGitHub : ofRunPod;
      for (const [name, value] of request.headers) {
        if (foreign.isIn(value)) return `${operation} shows another provider's key in ${name}`;
      }
      if (operation === "createPod") return createProblem(world, request, books.of(world));
      return every.isIn(request.body) ? `${operation} sends a secret` : null;
    },
    wrote(world, repository, check) {
      // What a page and the read API would say at this moment.
      const host = world.hosts.find((one) => one.repository === repository);
      const request = host?.up === true ? host.gate.store.request(check.externalId?.split(":")[0] ?? "") : null;
      if (host === undefined || request === null) return null;
      const page = JSON.stringify(requestView(request, host.gate.store));
      return books.of(world).every.isIn(page) ? `the view of ${request.id} holds a secret` : null;
    },
    step(world) {
      for (; acts < world.worker.acts.length; acts += 1) {
        const act = world.worker.acts[acts]?.act;
        if (act?.kind === "answers" && books.of(world).every.isIn(JSON.stringify(act.body)))
          return "an answer of the workflow API holds a secret";
      }
      if (read === world.log.length) return null;
      const { every } = books.of(world);
      for (; read < world.log.length; read += 1) {
        const line = world.log[read] ?? "";
        if (every.isIn(line)) return `a log line holds a secret: ${line.slice(0, 60)}`;
      }
      return null;
    },
    end(world) {
      const { every } = books.of(world);
      for (const { sql } of [...world.hosts, world.account]) {
        for (const table of new Set([...(sql === world.account.sql ? [] : TABLES), ...tablesOf(sql)])) {
          const text = JSON.stringify(sql.exec(`SELECT * FROM ${table}`));
          if (every.isIn(text)) return `the table ${table} holds a secret`;
        }
      }
      return null;
    },
  };
}

/** The secrets of a world, taken up as they are made: none of them is forgotten when it ends. */
class Books {
  readonly every = new SecretBook();
  readonly ofGitHub = new SecretBook();
  readonly ofRunPod = new SecretBook();
  #tokens = 0;
  #pods = 0;
  #shown = 0;

  of(world: WorldView): this {
    const { github, runpod, worker } = world;
    for (const book of [this.every, this.ofGitHub, this.ofRunPod]) book.add(appKeyText());
    for (const book of [this.every, this.ofRunPod]) book.add(runpod.apiKey);
    if (github.tokens.size !== this.#tokens) {
      this.#tokens = github.tokens.size;
      for (const token of github.tokens) for (const book of [this.every, this.ofGitHub]) book.add(token);
    }
    for (const repository of github.repositories)
      for (const runner of repository.runners.values()) this.every.add(runner.jit);
    for (; this.#shown < worker.acts.length; this.#shown += 1)
      this.every.add(worker.acts[this.#shown]?.shown.token?.split(".")[2] ?? "");
    for (; this.#pods < runpod.pods.length; this.#pods += 1) {
      const env = runpod.pods[this.#pods]?.env ?? {};
      for (const name of POD_SECRETS) this.every.add(env[name] ?? "");
    }
    return this;
  }
}

function tablesOf(sql: Sql): readonly string[] {
  const rows = sql.exec<{ name?: string }>(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
  );
  return rows.flatMap(({ name }) => (name === undefined ? [] : [name]));
}

let keyText: string | null = null;

/** A line of the App's private key: no way of writing it down keeps all of it together. */
function appKeyText(): string {
  return (keyText ??= appKey().split("\n")[1] ?? "");
}

function createProblem(world: WorldView, request: NetRequest, { every, ofGitHub, ofRunPod }: Books): string | null {
  const body = JSON.parse(request.body) as { env: Record<string, string>; args: string };
  const stranger = Object.keys(body.env).find((name) => !ALLOWED.has(name));
  if (stranger !== undefined) return `a pod is given ${stranger}`;
  if (ofGitHub.isIn(request.body) || ofRunPod.isIn(request.body)) return "a pod is given a key";
  const own = new Set(POD_SECRETS.flatMap((name) => body.env[name] ?? []));
  if (every.isIn(request.body, own)) return "a pod is given another pod's secret";
  // In the variables that are made for them, and nowhere that a list or a log of the provider shows.
  const rest = JSON.stringify({
    ...body,
    env: Object.entries(body.env).filter(([name]) => !POD_SECRETS.includes(name)),
  });
  if ([...own].some((secret) => secret !== "" && rest.includes(secret)))
    return "a pod's secret stands outside its variable";
  const attempt = body.env["GPU_GATE_ATTEMPT"];
  const twice = world.runpod.pods.some(
    (pod) => pod.env["GPU_GATE_ATTEMPT"] !== attempt && POD_SECRETS.some((name) => own.has(pod.env[name] ?? "")),
  );
  return twice ? "two attempts share a secret" : null;
}

/** What only this pod may know: its runner's registration and its two nonces. */
const POD_SECRETS: readonly string[] = Object.values(POD_ENV).filter((name) => name !== POD_ENV.controlUrl);
