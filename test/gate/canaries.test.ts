/**
 * Redaction: whole lives with providers that quote our secrets back at us, then every output scanned for them (I5).
 *
 * Canaries: the App's key, the webhook secret, the RunPod key, every installation token, every JIT config and nonce, and a
 * line of the start script. The real values are used, learned from the traffic itself.
 */
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { gateView } from "../../durable-objects/gate/view.ts";
import { startScript } from "../../pod/start-script.generated.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { startLife, verdictOf } from "./life.ts";

/** What a hostile answer to one request looks like; it is given the request's own words. */
type Answer = (request: { readonly body: string; readonly authorization: string }) => Response;

const json = (status: number, body: unknown, type = "application/problem+json") =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": type } });

/** Answers queued by method and path; each is used once. Everything that must stay secret is noted on the way. */
class Hostile {
  readonly secrets = new Map<string, string>();
  readonly #queue: { readonly method: string; readonly path: RegExp; readonly answer: Answer }[] = [];

  next(method: string, path: RegExp, answer: Answer): void {
    this.#queue.push({ method, path, answer });
  }

  get left(): readonly string[] {
    return this.#queue.map((fault) => `${fault.method} ${fault.path.source}`);
  }

  fetch(next: FetchLike): FetchLike {
    return async (input, init) => {
      const method = init?.method ?? "GET";
      const body = typeof init?.body === "string" ? init.body : "";
      const authorization = new Headers(init?.headers).get("authorization") ?? "";
      const token = authorization.split(" ").at(-1) ?? "";
      if (token.length >= 20) this.secrets.set(token, "credential");
      const { pathname } = new URL(input);
      if (method === "POST" && pathname === "/v2/pods") this.#learn(body);
      const at = this.#queue.findIndex((fault) => fault.method === method && fault.path.test(pathname));
      const fault = this.#queue[at];
      if (fault === undefined) return next(input, init);
      this.#queue.splice(at, 1);
      return fault.answer({ body, authorization });
    };
  }

  #learn(body: string): void {
    const create = z.object({ env: z.record(z.string(), z.string()) }).parse(JSON.parse(body));
    for (const name of ["GPU_GATE_JIT_CONFIG", "GPU_GATE_PROOF_NONCE", "GPU_GATE_EXIT_NONCE"]) {
      const value = create.env[name] ?? "";
      if (value !== "") this.secrets.set(value, name);
    }
  }
}

/** Pieces of a secret: one that was cut, wrapped or escaped is still found. */
function pieces(secret: string): string[] {
  const flat = secret.replaceAll(/-----[^-]+-----|\s/g, "");
  const size = Math.min(24, flat.length);
  const starts = [0, Math.floor((flat.length - size) / 2), flat.length - size];
  return starts.map((start) => flat.slice(start, start + size));
}

function found(secrets: ReadonlyMap<string, string>, outputs: Readonly<Record<string, string>>): string[] {
  const hits: string[] = [];
  for (const [secret, what] of secrets) {
    for (const piece of pieces(secret)) {
      for (const [where, text] of Object.entries(outputs)) if (text.includes(piece)) hits.push(`${what} in ${where}`);
    }
  }
  return [...new Set(hits)];
}

/** Every row of every table, as text. */
function tables(sql: { exec: (query: string) => unknown[] }): string {
  const names = z
    .array(z.object({ name: z.string() }))
    .parse(sql.exec(`SELECT name FROM sqlite_schema WHERE type = 'table'`));
  return names.map(({ name }) => JSON.stringify(sql.exec(`SELECT * FROM "${name}"`))).join("\n");
}

describe("no secret leaves", () => {
  it("through any log, row, check, view or dispatch, whatever the providers quote", async () => {
    const hostile = new Hostile();
    const world = await startLife({ fetch: (next) => hostile.fetch(next) });
    try {
      const secrets = hostile.secrets;
      secrets.set(world.secrets.appKey, "App key");
      secrets.set(world.secrets.webhook, "webhook secret");
      secrets.set(world.secrets.runpod, "RunPod key");
      // The start command: any of its lines would do.
      for (const line of ["gpu-gate pod start script", "what a rented machine does before it becomes a runner"]) {
        secrets.set(line, "start script");
        expect(startScript).toContain(line);
      }
      const verdicts: string[] = [];
      const live = async (name: string) => {
        const request = await world.concluded(world.openCode(name));
        verdicts.push(`${name}: ${verdictOf(request).reason}`);
      };

      // RunPod quotes the whole request: as plain text, in a problem's detail, in its errors, in a page of the edge.
      hostile.next("POST", /^\/v2\/pods$/, ({ body }) => new Response(body, { status: 500 }));
      hostile.next("POST", /^\/v2\/pods$/, ({ body }) =>
        json(400, { title: "Bad Request", detail: `cannot take ${body}` }),
      );
      await live("echoed");
      hostile.next("POST", /^\/v2\/pods$/, ({ body, authorization }) =>
        json(422, { title: "Unprocessable", detail: authorization, errors: [body, `env ${body.slice(0, 4_000)}`] }),
      );
      await live("unprocessable");
      hostile.next(
        "POST",
        /^\/v2\/pods$/,
        ({ body }) =>
          new Response(`<html><body>${body}</body></html>`, { status: 403, headers: { "content-type": "text/html" } }),
      );
      await live("edge");
      hostile.next("POST", /^\/v2\/pods$/, ({ body, authorization }) => {
        throw new TypeError(`fetch failed: ${authorization} ${body}`);
      });
      await live("thrown");

      // A pod that fails and prints what it was given.
      world.runpod.nextPod({ nvidiaSmi: { mode: "error" } });
      hostile.next("GET", /^\/v2\/pods\/[^/]+\/logs$/, ({ authorization }) => {
        const told = [...secrets.keys()].filter((secret) => !secret.includes("\n")).join(" ");
        const event = { source: "container", line: `[gpu-gate] REFUSED (gpu-error): ${told} ${authorization}`, ts: "" };
        return new Response(`data: ${JSON.stringify(event)}\n\n`, { headers: { "content-type": "text/event-stream" } });
      });
      await live("printed");

      // GitHub quotes tokens and bodies in its refusals.
      hostile.next("POST", /generate-jitconfig$/, ({ body, authorization }) =>
        json(403, { message: `Forbidden for ${authorization}: ${body}` }, "application/json"),
      );
      await live("mint");
      hostile.next("POST", /\/check-runs$/, ({ body, authorization }) =>
        json(
          422,
          { message: `Invalid ${authorization} ${body}`, errors: [{ message: authorization }] },
          "application/json",
        ),
      );
      hostile.next(
        "POST",
        /dispatches$/,
        ({ body, authorization }) => new Response(`${authorization} ${body}`, { status: 502 }),
      );
      await live("refused-check");

      expect(verdicts).toEqual([
        "echoed: tests-passed",
        "unprocessable: request-invalid",
        "edge: provider-outage",
        "thrown: tests-passed",
        "printed: tests-passed",
        "mint: runner-config",
        // A dispatch without an answer is looked up, never repeated blindly; there was none.
        "refused-check: workflow-unavailable",
      ]);
      expect(hostile.left).toEqual([]);
      // The canaries were really out there: five creates at least, three secrets each, the keys and a token.
      expect([...secrets.values()].filter((what) => what === "GPU_GATE_JIT_CONFIG").length).toBeGreaterThanOrEqual(6);
      expect([...secrets.values()].filter((what) => what === "credential").length).toBeGreaterThanOrEqual(1);

      const { books } = world.github;
      const outputs = {
        log: JSON.stringify(world.log),
        "gate tables": tables(world.sql),
        "account tables": tables(world.accountSql),
        "check writes": JSON.stringify(books.checkWrites),
        "requests to GitHub": JSON.stringify(books.requests.map((entry) => entry.body)),
        dispatches: JSON.stringify(books.dispatches),
        view: JSON.stringify(gateView(world.gate.store, world.sql, Date.now())),
      };
      for (const text of Object.values(outputs)) expect(text.length).toBeGreaterThan(50);
      expect(found(secrets, outputs)).toEqual([]);
      // The scan itself finds what it looks for.
      const [jit = ""] = [...secrets.keys()].slice(-1);
      expect(found(secrets, { ...outputs, planted: `x ${jit.slice(0, 30)} y` })).not.toEqual([]);
    } finally {
      await world.close();
    }
  });
});
