/** A sample of `npm run fuzz` with a fixed seed, every kept case, and proof that each judge can object. */
import { describe, expect, it } from "vitest";
import { corpusOf } from "../../fuzz/corpus.ts";
import { judgeOne, newTally, replay, runSeed } from "../../fuzz/run.ts";
import { openConfig } from "../../fuzz/targets/config.ts";
import { openGitHub } from "../../fuzz/targets/github-answers.ts";
import { targets } from "../../fuzz/targets/index.ts";
import { openLives } from "../../fuzz/targets/life-answers.ts";
import { openTokens } from "../../fuzz/targets/oidc.ts";
import { openParsers } from "../../fuzz/targets/parsers.ts";
import { openRoutes } from "../../fuzz/targets/routes.ts";
import { openRunPod } from "../../fuzz/targets/runpod-answers.ts";
import { damageRow, openRows } from "../../fuzz/targets/stored-rows.ts";
import { openWebhooks } from "../../fuzz/targets/webhooks.ts";
import { watched } from "../../fuzz/watched.ts";
import { parseRepositoryConfig } from "../../shared/config/load.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { createApp } from "../../worker/app.ts";
import { openBench } from "../oidc/harness.ts";
import { nodeSql } from "../support/node-sql.ts";

const SEED = 20_261_130;
const planted = new URL("./planted.ts", import.meta.url).href;

describe("a sample of every cheap target", () => {
  it.each(targets.filter(({ sample }) => sample > 0))("$name: its kept cases and fresh ones", async (target) => {
    const session = await target.open();
    const tally = newTally();
    try {
      expect(await replay(target, session, corpusOf(target.name), tally)).toBeNull();
      expect(await runSeed(target, session, { seed: SEED, cases: target.sample, tally })).toBeNull();
    } finally {
      await session.close();
    }
    expect(tally.cases).toBeGreaterThanOrEqual(target.sample);
  });

  it("has no kept case of a target that is gone", () => {
    const kept = targets.reduce((sum, { name }) => sum + corpusOf(name).length, 0);
    expect(kept).toBeGreaterThan(5);
  });
});

const QUIET = { json: [], bytes: [], encoding: "utf8" } as const;
const DELIVERY = {
  ...QUIET,
  example: 0,
  signature: "good",
  type: "application/json",
  compressed: "no",
  pieces: 0,
  padding: 0,
  event: null,
  guid: null,
  gateDown: false,
} as const;

describe("each judge objects to a planted fault", () => {
  it("webhooks: an unsigned delivery that is stored, an answer that shows a stack, a gate's exception as 500", async () => {
    const forgiving = await openWebhooks((ports) => {
      const app = createApp(() => ports);
      return {
        request: async (path, init) => {
          const delivery = {
            guid: "g",
            event: "x",
            repository: { id: "1", owner: "o", name: "n" },
            installationId: null,
          };
          await ports.gate("1").accept({ ...delivery, signal: { kind: "repository", action: "renamed" } });
          return app.request(path, init);
        },
      };
    });
    expect(await forgiving.judge({ ...DELIVERY, signature: "none" })).toContain("nobody signed");
    const answering = (text: string, status: number) =>
      openWebhooks(() => ({ request: async () => new Response(text, { status }) }));
    expect(await (await answering("Oh.\n    at x (y.ts:1:1)", 400)).judge(DELIVERY)).not.toBeNull();
    expect(await (await answering("Something went wrong.", 500)).judge(DELIVERY)).toContain("none of the documented");
    expect(await (await answering("Accepted.", 202)).judge({ ...DELIVERY, signature: "wrong-secret" })).toContain(
      "nobody signed",
    );
    expect(await (await answering("", 400)).judge(DELIVERY)).toContain("without a sentence");
  });

  it("oidc: a token that anybody signed is let in, a good one is not", async () => {
    const token = {
      header: [],
      claims: [],
      headerJson: [],
      payloadJson: [],
      signer: "issuer",
      tamper: "no",
      scheme: "Bearer",
    } as const;
    const always = (status: number) =>
      openTokens(() => ({ ...openBench(), opened: [], log: [], send: async () => new Response("{}", { status }) }));
    expect(await always(202).judge({ ...token, signer: "stranger" })).toContain("accepted");
    expect(await always(401).judge(token)).toContain("refused");
    expect(await openTokens(openBench).judge(token)).toBeNull();
  });

  it("config: a loader that forgets, that says nothing, that shows its own words", async () => {
    const smallest = { base: 1, yaml: [], bytes: [] };
    let loads = 0;
    const forgetful = openConfig((text) =>
      (loads += 1) % 2 === 0 ? { ok: false, error: [] } : parseRepositoryConfig(text),
    );
    expect(await forgetful.judge(smallest)).toContain("accepted once");
    const saying = (message: string) =>
      openConfig(() => ({ ok: false, error: [{ line: 1, column: 1, path: "", message, fix: "Do." }] })).judge(smallest);
    expect(await saying("")).toContain("without what is wrong");
    expect(await saying("two\nlines")).toContain("breaks its line");
    expect(await saying("[object Object]")).toContain("machine");
    expect(await saying("fine")).toBeNull();
  });

  it("runpod-answers: a client that throws, and one that takes an unreadable pod for gone", async () => {
    const given = { ...QUIET, ask: "getPod", base: null, status: 200, headers: 0, broken: "no" } as const;
    const faulty = (getPod: ReturnType<typeof createRunPodClient>["getPod"]) =>
      openRunPod((options) => ({ ...createRunPodClient(options), getPod }));
    expect(await faulty(() => Promise.reject(new Error("x"))).judge(given)).toContain("threw");
    expect(await faulty(async () => ({ kind: "not-found" })).judge(given)).toContain("without a 404");
    expect(await openRunPod(createRunPodClient).judge(given)).toBeNull();
  });

  it("github-answers: a client that makes a green run out of nothing", async () => {
    const given = { ...QUIET, ask: "getRun", status: 200, headers: 0, broken: "no" } as const;
    const faulty = openGitHub((client) => ({
      ...client,
      async getRun(id) {
        const run = await client.getRun(id);
        return run.ok ? { ok: true, value: { ...run.value, conclusion: "success" } } : run;
      },
    }));
    expect(await faulty.judge(given)).toContain("which nobody said");
    expect(await openGitHub((client) => client).judge(given)).toBeNull();
  });

  it("routes: an unguarded act, a 500, a redirect, an exception called a silence", async () => {
    const given = { ...QUIET, route: 5, method: null, path: 0, authorised: false } as const;
    const fresh = { headers: { "x-content-type-options": "nosniff" } };
    const bench = (answer: () => Response, act = false, caught: string[] = []) => {
      const acts: string[] = [];
      return openRoutes(() => ({
        acts,
        caught: () => caught,
        send: async () => {
          if (act) acts.push("pause");
          return answer();
        },
      }));
    };
    expect(await bench(() => new Response("no", { status: 404, ...fresh }), true).judge(given)).toContain("for nobody");
    expect(await bench(() => new Response("oh", { status: 500, ...fresh })).judge(given)).toContain("answered");
    expect(await bench(() => new Response(null, { status: 302, ...fresh })).judge(given)).toContain("elsewhere");
    expect(await bench(() => new Response("no", { status: 404, ...fresh })).judge(given)).toBeNull();
  });

  it("parsers: a reader that throws, and one that concludes too much", async () => {
    const given = { reader: "x", base: 0, yaml: [], pieces: [], json: [], bytes: [] };
    const reading = (read: () => string | null) => openParsers({ x: { bases: ["a"], as: "text", read } }).judge(given);
    expect(
      await reading(() => {
        throw new Error("x");
      }),
    ).toContain("threw");
    expect(await reading(() => "evidence of no test")).toContain("evidence");
    expect(await reading(() => null)).toBeNull();
  });

  it("the two that play whole lives: what a checker sees is a finding", async () => {
    const checker = { name: "planted", step: () => "a pod lives on" };
    expect(await openLives(() => [checker]).judge({ seed: 1, damage: [] })).toContain("a pod lives on");
    expect(await openRows(() => [checker]).judge({ seed: 1, damage: [] })).toContain("a pod lives on");
  });

  it("stored-rows: what it damages is really another value", () => {
    const sql = nodeSql();
    migrate(sql);
    sql.exec("INSERT INTO configs (hash, config) VALUES ('h', '{\"a\":1}')");
    const tables = ["configs", "lock"];
    const said = tables.map((_name, table) =>
      damageRow(sql, { where: "gate", when: 0, table, row: 0, column: 0, by: 0, crash: false }),
    );
    expect(said).toEqual(['configs.config = "not json"', expect.stringContaining("lock.")]);
    expect(sql.exec("SELECT config FROM configs")).toEqual([{ config: "not json" }]);
    sql.close();
  });

  it("of any target: a throw, and a prototype that was written to", async () => {
    const session = (judge: () => Promise<string | null>) => ({ judge, close: async () => undefined });
    expect(
      await judgeOne(
        session(() => Promise.reject(new Error("x"))),
        {},
        newTally(),
      ),
    ).toContain("threw");
    const writing = session(async () => {
      Reflect.set(Object.prototype, "polluted", 1);
      return null;
    });
    try {
      expect(await judgeOne(writing, {}, newTally())).toContain("every object");
    } finally {
      Reflect.deleteProperty(Object.prototype, "polluted");
    }
  });

  it("a case that never ends is named, from outside of its thread", async () => {
    const report = await watched({ module: planted, target: "hangs", seed: 1, cases: 5, forMs: null }, { hangMs: 300 });
    expect(report.finding?.what).toContain("has not ended");
    expect(report.finding?.given).toEqual({ hang: true });
  });

  it("a finding is shrunk to the least that shows it", async () => {
    const report = await watched(
      { module: planted, target: "counts", seed: 1, cases: 200, forMs: null },
      { hangMs: 10_000 },
    );
    expect(report.finding?.given).toEqual([50]);
  });
});
