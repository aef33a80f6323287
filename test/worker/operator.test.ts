/** The operator's calls and the cost report: who may, what is told, and what nobody else learns. */
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import type { BooksPorts } from "../../cron/ports.ts";
import type { ExplainQuestion, OperatorWord } from "../../durable-objects/gate/operator.ts";
import type { RetainAnswer, RetainWord } from "../../durable-objects/gate/retention.ts";
import type { AuditNote } from "../../shared/lifecycle/step.ts";
import { err, ok } from "../../shared/result.ts";
import { mountCostsApi, readRange } from "../../worker/costs-api.ts";
import { mountExplainApi } from "../../worker/explain-api.ts";
import { mountOperatorApi } from "../../worker/operator-api.ts";
import type { OperatorPorts } from "../../worker/operator-ports.ts";
import { SETTINGS, T0 } from "./ports.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";

class World implements OperatorPorts {
  settings: OperatorPorts["settings"] = ok({ ...SETTINGS, statusPage: false, operatorToken: TOKEN });
  paused: boolean[] = [];
  notes: [string, AuditNote][] = [];
  words: [string, RetainWord][] = [];
  orders: [string, OperatorWord][] = [];
  questions: [string, ExplainQuestion][] = [];
  ranges: [number, number][] = [];
  answer: RetainAnswer = { kind: "noted", detail: "It will be kept." };
  silent = new Set<string>();
  logged: Readonly<Record<string, unknown>>[] = [];
  readonly books = {
    account: {
      bills: async () => ({ ok: true, value: [] }),
      buyers: async () => [],
      billingDone: async () => undefined,
    },
    gate: () => ({ recordBills: async () => ({ known: [], drifts: [] }) }),
  } as unknown as BooksPorts;
  readonly clock = { now: () => T0 };
  readonly log: OperatorPorts["log"] = (entry) => void this.logged.push(entry);
  readonly account: OperatorPorts["account"] = {
    setPaused: async (paused) => void this.paused.push(paused),
    registered: async () => [{ id: "102", owner: "o", name: "n" }],
  };
  readonly gate: OperatorPorts["gate"] = (id) => ({
    costs: async (from, to) => {
      if (this.silent.has(id)) throw new Error("reset");
      this.ranges.push([from, to]);
      return { complete: true, costs: [] };
    },
    retain: async (word) => {
      this.words.push([id, word]);
      return this.answer;
    },
    operator: async (word) => {
      this.orders.push([id, word]);
      return { done: word.requestId === "r1", detail: "Said." };
    },
    explain: async (question) => {
      this.questions.push([id, question]);
      return id === "101" && question.prNumber === 7
        ? JSON.stringify([{ request: { id: "r1" }, decisions: [] }])
        : "[]";
    },
    note: async (note) => {
      if (this.silent.has(id)) throw new Error("reset");
      this.notes.push([id, note]);
    },
  });

  async ask(path: string, body?: unknown, token: string | null = TOKEN): Promise<Response> {
    const app = new Hono<{ Bindings: Env }>();
    app.notFound((context) => context.text("There is nothing at this address.", 404));
    mountCostsApi(app, () => this);
    mountOperatorApi(app, () => this);
    mountExplainApi(app, () => this);
    const headers = token === null ? {} : { authorization: `Bearer ${token}` };
    const init =
      body === undefined ? {} : { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) };
    return app.request(`https://gate.test${path}`, { headers, ...init });
  }
}

const PATHS = ["/v1/operator/pause", "/v1/operator/retain", "/v1/operator/billing"];

describe("who is the operator", () => {
  it.each(PATHS)(
    "%s is not there for anybody else: no token, a wrong one, one that only begins right",
    async (path) => {
      const world = new World();
      for (const token of [null, "x".repeat(32), TOKEN.slice(0, -1), `${TOKEN}0`, ""]) {
        const answer = await world.ask(path, { paused: true, reason: "" }, token);
        expect([answer.status, await answer.text()]).toEqual([404, "There is nothing at this address."]);
      }
      expect(world.paused).toEqual([]);
    },
  );

  it.each(PATHS)("%s is not there while the deployment has no token, whatever is shown", async (path) => {
    const world = new World();
    world.settings = ok({ ...SETTINGS, statusPage: true });
    for (const token of ["", "undefined", TOKEN]) expect((await world.ask(path, {}, token)).status).toBe(404);
    world.settings = err(["DEPLOYMENT is missing."]);
    expect((await world.ask(path, {})).status).toBe(404);
  });
});

describe("POST /v1/operator/pause", () => {
  it("stops buying, then tells every repository's audit and the log", async () => {
    const world = new World();
    const answer = await world.ask("/v1/operator/pause", { paused: true, reason: "a bill" });
    expect([answer.status, await answer.json()]).toEqual([200, { paused: true, repositories: 2 }]);
    expect(world.paused).toEqual([true]);
    const note = { act: "operator.pause", reason: "buying-paused", facts: { why: "a bill" } };
    expect(world.notes).toEqual([
      ["101", note],
      ["102", note],
    ]);
    expect(world.logged).toEqual([{ event: "operator.pause", reason: "a bill" }]);
  });

  it("a gate that does not answer does not stop the stop", async () => {
    const world = new World();
    world.silent.add("101");
    const answer = await world.ask("/v1/operator/pause", { paused: false });
    expect(await answer.json()).toEqual({ paused: false, repositories: 1 });
    expect(world.paused).toEqual([false]);
  });

  it.each([["not json"], [{}], [{ paused: "yes" }], [{ paused: true, more: 1 }], ["x".repeat(5000)]])(
    "refuses %j with a sentence and does nothing",
    async (body) => {
      const world = new World();
      const answer = await world.ask("/v1/operator/pause", body);
      expect(answer.status).toBe(400);
      expect(await answer.json<{ error: string }>()).toMatchObject({ error: expect.stringMatching(/\.$/) });
      expect(world.paused).toEqual([]);
    },
  );
});

describe("POST /v1/operator/retain", () => {
  it("gives the word to the repository's gate and its answer back", async () => {
    const world = new World();
    const body = { repository: "101", request: "r4", minutes: 30, by: "mira", reason: "a hang" };
    const answer = await world.ask("/v1/operator/retain", body);
    expect([answer.status, await answer.json()]).toEqual([200, world.answer]);
    const word = { target: { requestId: "r4" }, by: "mira", minutes: 30, reason: "a hang" };
    expect(world.words).toEqual([["101", word]]);
  });

  it("says no as a conflict, with the gate's own words", async () => {
    const world = new World();
    world.answer = { kind: "refused", detail: "Over the day's cap." };
    const answer = await world.ask("/v1/operator/retain", { repository: "101", pod: "p1", minutes: 30 });
    expect([answer.status, await answer.json()]).toEqual([409, world.answer]);
  });

  it.each([
    [{ repository: "101", minutes: 30 }],
    [{ repository: "101", minutes: 30, pod: "p", request: "r" }],
    [{ repository: "acme/tensors", minutes: 30, pod: "p" }],
    [{ repository: "101", minutes: -1, pod: "p" }],
    [{ repository: "101", minutes: 10_000, pod: "p" }],
  ])("refuses %j", async (body) => {
    const world = new World();
    expect((await world.ask("/v1/operator/retain", body)).status).toBe(400);
    expect(world.words).toEqual([]);
  });
});

describe("GET /api/costs", () => {
  it("is private unless the status page is on, and open to the operator always", async () => {
    const world = new World();
    expect((await world.ask("/api/costs", undefined, null)).status).toBe(404);
    expect((await world.ask("/api/costs")).status).toBe(200);
    world.settings = ok(SETTINGS);
    expect((await world.ask("/api/costs", undefined, null)).status).toBe(200);
  });

  it("asks every gate for the range, this UTC month by default, and says when one was silent", async () => {
    const world = new World();
    const answer = await world.ask("/api/costs");
    const month = Date.UTC(2026, 10, 1);
    expect(await answer.json()).toEqual({ from: month, to: T0 + 1, complete: true, costs: [] });
    expect(world.ranges).toEqual([
      [month, T0 + 1],
      [month, T0 + 1],
    ]);
    world.silent.add("102");
    expect(await (await world.ask("/api/costs")).json()).toMatchObject({ complete: false });
  });

  it("counts a last day whole, and refuses what is no range in a sentence", async () => {
    const day = Date.UTC(2026, 10, 30);
    expect(readRange("2026-11-30", "2026-11-30", T0)).toEqual(ok({ from: day, to: day + 86_400_000 }));
    expect(readRange("2026-11-30T01:00:00Z", "2026-11-30T02:00:00Z", T0)).toMatchObject({ ok: true });
    for (const [from, to] of [
      ["yesterday", undefined],
      [undefined, "never"],
      ["2026-12-01", "2026-11-01"],
      ["2020-01-01", undefined],
    ]) {
      expect(readRange(from, to, T0)).toMatchObject({ ok: false });
    }
    const answer = await new World().ask("/api/costs?from=soon");
    expect([answer.status, await answer.json()]).toMatchObject([
      400,
      { error: expect.stringContaining("from") as string },
    ]);
  });
});

describe("the operator's word about one request", () => {
  const word = { repository: "101", request: "r1", action: "cancel" };

  it("goes to that repository's gate, and its answer comes back", async () => {
    const world = new World();
    const answer = await world.ask("/v1/operator/request", { ...word, by: "ops", reason: "stuck" });
    expect([answer.status, await answer.json()]).toEqual([200, { done: true, detail: "Said." }]);
    expect(world.orders).toEqual([
      ["101", { action: "cancel", requestId: "r1", by: "ops", reason: "stuck", micros: null }],
    ]);
  });

  it("is a conflict when the gate refuses, and an amount is told in micro-dollars", async () => {
    const world = new World();
    const answer = await world.ask("/v1/operator/request", { ...word, request: "r2", action: "approve", usd: 4.5 });
    expect(answer.status).toBe(409);
    expect(world.orders[0]?.[1].micros).toBe(4_500_000);
  });

  it.each([null, "0123456789abcdef0123456789abcdeX"])("is not there for the token %s", async (token) => {
    const world = new World();
    expect((await world.ask("/v1/operator/request", word, token)).status).toBe(404);
    expect(world.orders).toEqual([]);
  });

  it("a repository that is not served is named as what is wrong, and no gate is asked", async () => {
    const world = new World();
    for (const [path, body] of [
      ["/v1/operator/retain", { repository: "999", pod: "p1", minutes: 30 }],
      ["/v1/operator/request", { ...word, repository: "999", reason: "a hang" }],
    ] as const) {
      const answer = await world.ask(path, body);
      expect([answer.status, await answer.json()]).toEqual([
        400,
        { error: expect.stringMatching(/^No repository with the id 999 is served here; known are: .*102/) },
      ]);
    }
    expect([world.words, world.orders]).toEqual([[], []]);
  });

  it.each([{ action: "delete" }, { repository: "acme/tensors" }, { usd: 0 }, { more: 1 }])(
    "is refused with %j, before any gate is asked",
    async (change) => {
      const world = new World();
      expect((await world.ask("/v1/operator/request", { ...word, ...change })).status).toBe(400);
      expect(world.orders).toEqual([]);
    },
  );
});

describe("GET /api/explain", () => {
  it("asks the gates that are known, and shows who knows something", async () => {
    const world = new World();
    const answer = await world.ask("/api/explain?pr=7");
    expect(await answer.json()).toMatchObject({
      repositories: [{ id: "101", explained: [{ request: { id: "r1" } }] }],
    });
    expect(world.questions).toContainEqual(["102", { prNumber: 7 }]);
  });

  it("makes no gate for a repository nobody serves", async () => {
    const world = new World();
    expect(await (await world.ask("/api/explain?pr=7&repository=999")).json()).toMatchObject({ repositories: [] });
    expect(world.questions).toEqual([]);
  });

  it("is not there without the token while the status page is off, and wants one subject", async () => {
    const world = new World();
    expect((await world.ask("/api/explain?pr=7", undefined, null)).status).toBe(404);
    expect((await world.ask("/api/explain")).status).toBe(400);
    expect((await world.ask("/api/explain?pr=7&request=r1")).status).toBe(400);
    expect((await world.ask("/api/explain?pr=x")).status).toBe(400);
  });
});
