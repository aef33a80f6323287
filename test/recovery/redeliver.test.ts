/** Deliveries that nobody answered, asked for again: against the local GitHub, with a receiver that can be down. */
import { createServer, type Server } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { redeliver, type RedeliverPorts, type RedeliverStatus } from "../../cron/redeliver.ts";
import { Account } from "../../durable-objects/account/account.ts";
import { Turns } from "../../durable-objects/account/turns.ts";
import { newWebhookSecret, startLocalGitHub, type LocalGitHub } from "../../local/github/index.ts";
import type { RepositoryControl } from "../../local/github/index.ts";
import { createGitHubApp } from "../../shared/github/app.ts";
import { createGitHubAppClient, type HookDelivery } from "../../shared/github/app-client.ts";
import { err, ok } from "../../shared/result.ts";
import { systemClock } from "../../shared/ports.ts";
import { nodeSql } from "../support/node-sql.ts";

const DAY = 86_400_000;
const EVERY = 900_000;

/** The account's memory on a database of its own; the time is the test's. */
function memory(now: () => number): RedeliverPorts["turns"] {
  const sql = nodeSql();
  // Its tables, as the object makes them.
  const account = new Account({ sql, clock: { now }, runpod: {} as never, monthlyCapMicros: 0 });
  expect(account.registered()).toEqual([]);
  const turns = new Turns(sql);
  return {
    take: (duty, everyMs) => Promise.resolve(turns.take(duty, now(), everyMs)),
    keep: (duty, text, more) => Promise.resolve(turns.keep(duty, text, more)),
  };
}

describe("against the local GitHub", () => {
  let github: LocalGitHub;
  let repository: RepositoryControl;
  let receiver: Server;
  let url: string;
  let answers: number[];
  let received: string[];
  let later: number;
  let ports: RedeliverPorts;

  beforeEach(async () => {
    github = await startLocalGitHub({ webhookSecret: newWebhookSecret() });
    repository = github.createRepository({ owner: "octo", name: "lab", files: { "README.md": "# lab\n" } });
    repository.addCollaborator("mira", "admin");
    received = [];
    answers = [];
    receiver = createServer((request, response) => {
      request.resume().on("end", () => {
        const status = answers.shift() ?? 202;
        if (status < 300) received.push(String(request.headers["x-github-delivery"]));
        response.writeHead(status).end();
      });
    });
    url = await new Promise((resolve) => {
      receiver.listen(0, "127.0.0.1", () => {
        const address = receiver.address();
        resolve(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/`);
      });
    });
    later = 0;
    const app = createGitHubApp(
      { appId: github.appId, privateKey: github.privateKeyPem, apiUrl: github.url },
      { fetch: (input, init) => fetch(input, init), clock: systemClock },
    );
    if (!app.ok) throw new Error(app.error.message);
    ports = { github: createGitHubAppClient(app.value), turns: memory(() => Date.now() + later), everyMs: EVERY };
    github.webhooks.configure({ url });
  });

  afterEach(async () => {
    receiver.closeAllConnections();
    receiver.close();
    await github.close();
  });

  const sweep = async (): Promise<RedeliverStatus> => {
    const status = await redeliver(ports, { now: () => Date.now() + later });
    await github.webhooks.settled();
    return status;
  };
  const open = (title: string) =>
    repository.openPullRequest({ author: "mira", title, files: { [`${title}.rs`]: "fn f() {}\n" } });
  const tries = (guid: string) => github.books.webhooks.filter((one) => one.guid === guid).length;

  it("N49: events of a time when nobody listened arrive once the receiver is back, each once", async () => {
    github.webhooks.configure({ url: "http://127.0.0.1:9/" });
    open("one");
    open("two");
    await github.webhooks.settled();
    const lost = new Set(github.books.webhooks.map((one) => one.guid));
    expect(lost.size).toBeGreaterThan(1);
    github.webhooks.configure({ url });
    const status = await sweep();
    expect(status).toMatchObject({ kind: "swept", asked: lost.size });
    expect(received.toSorted()).toEqual([...lost].toSorted());
    later += EVERY;
    expect(await sweep()).toMatchObject({ asked: 0, waiting: 0 });
    expect(received).toHaveLength(lost.size);
  });

  it("an attempt without any answer counts as failed, although GitHub's own filter leaves it out", async () => {
    github.webhooks.next({ event: "pull_request" }, "drop");
    open("one");
    await github.webhooks.settled();
    const [lost] = github.books.webhooks.filter((one) => one.status !== "OK");
    expect(lost?.statusCode).toBe(0);
    await sweep();
    expect(received).toContain(lost?.guid);
  });

  it("an event that arrived at its second attempt is left alone", async () => {
    github.webhooks.next({ event: "pull_request" }, "drop");
    open("one");
    await github.webhooks.settled();
    const lost = github.books.webhooks.find((one) => one.status !== "OK");
    github.webhooks.redeliver({ guid: lost?.guid ?? "" });
    await github.webhooks.settled();
    expect(await sweep()).toMatchObject({ asked: 0, waiting: 0 });
    expect(tries(lost?.guid ?? "")).toBe(2);
  });

  it("is asked for later and later while it goes on failing, always at its newest attempt", async () => {
    github.webhooks.next({ event: "pull_request" }, "drop");
    open("one");
    await github.webhooks.settled();
    const guid = github.books.webhooks.find((one) => one.status !== "OK")?.guid ?? "";
    const asks: number[] = [];
    for (let turn = 0; turn < 8; turn += 1) {
      answers = [503];
      if ((await sweep()).asked > 0) asks.push(turn);
      answers = [];
      later += EVERY;
    }
    // At once, then after one, two and four turns.
    expect(asks).toEqual([0, 1, 3, 7]);
    expect(tries(guid)).toBe(5);
    expect(received).not.toContain(guid);
  });

  it("is given up when GitHub has it no more, and says so", async () => {
    github.webhooks.next({ event: "pull_request" }, "drop");
    open("one");
    await github.webhooks.settled();
    answers = [500];
    await sweep();
    later += 3 * DAY + EVERY;
    const status = await sweep();
    expect(status).toMatchObject({ asked: 0, waiting: 0 });
    expect(status.problems.join()).toContain("never answered");
  });

  it("takes its turn every fifteen minutes, not every tick, and not twice at once", async () => {
    const [first, second] = await Promise.all([redeliver(ports, systemClock), redeliver(ports, systemClock)]);
    expect([first.kind, second.kind].toSorted()).toEqual(["not-due", "swept"]);
    later += EVERY - 60_000;
    expect((await sweep()).kind).toBe("not-due");
    later += 60_000;
    expect((await sweep()).kind).toBe("swept");
  });
});

describe("a list of many pages", () => {
  const BIG = 9_007_199_254_740_993_000n;

  /** Deliveries newest first, a page each `size`; every `bad`th failed. */
  function stub(count: number, size: number, bad: number) {
    const now = Date.now();
    const all = Array.from({ length: count }, (_, index): HookDelivery => {
      const failed = (count - index) % bad === 0;
      return {
        id: String(BIG + BigInt(count - index)),
        guid: `guid-${count - index}`,
        deliveredAt: now - index * 1_000,
        redelivery: false,
        status: failed ? "timed out" : "OK",
        statusCode: failed ? 0 : 202,
        event: "pull_request",
        action: "opened",
        installationId: "1",
        repositoryId: "101",
        throttledAt: null,
      };
    });
    const asked: string[] = [];
    let pages = 0;
    const github: RedeliverPorts["github"] = {
      listHookDeliveries: ({ cursor = null } = {}) => {
        pages += 1;
        const start = cursor === null ? 0 : Number(cursor);
        const deliveries = all.slice(start, start + size);
        return Promise.resolve(ok({ deliveries, nextCursor: start + size < count ? String(start + size) : null }));
      },
      redeliver: (id) => {
        asked.push(id);
        return Promise.resolve(ok("accepted"));
      },
    };
    return { github, asked, pages: () => pages };
  }

  it("is read over several ticks within each one's requests; ids beyond 2^53 stay exact", async () => {
    const { github, asked, pages } = stub(1_000, 100, 250);
    let now = Date.now();
    const ports = { github, turns: memory(() => now), everyMs: EVERY };
    const first = await redeliver(ports, { now: () => now });
    expect(first).toMatchObject({ kind: "part", read: 600 });
    now += 60_000;
    expect(await redeliver(ports, { now: () => now })).toMatchObject({ kind: "swept", read: 400 });
    expect(pages()).toBe(10);
    expect(asked.toSorted()).toEqual([250n, 500n, 750n, 1_000n].map((index) => String(BIG + index)));
  });

  it("is read once: the next turn stops where the last pass began", async () => {
    const { github, pages } = stub(1_000, 100, 2_000);
    let now = Date.now();
    const ports = { github, turns: memory(() => now), everyMs: EVERY };
    await redeliver(ports, { now: () => now });
    now += 60_000;
    await redeliver(ports, { now: () => now });
    const before = pages();
    now += EVERY;
    expect(await redeliver(ports, { now: () => now })).toMatchObject({ kind: "swept" });
    // Five minutes of overlap at one delivery a second.
    expect(pages() - before).toBeLessThanOrEqual(4);
  });

  it("asks for a bounded number a tick, the oldest first, and for the next with the next tick", async () => {
    const { github, asked } = stub(100, 100, 2);
    let now = Date.now();
    const ports = { github, turns: memory(() => now), everyMs: EVERY };
    await redeliver(ports, { now: () => now });
    expect(asked).toEqual([2n, 4n, 6n, 8n, 10n, 12n, 14n, 16n].map((index) => String(BIG + index)));
    for (let tick = 1; tick < 7; tick += 1) {
      now += 60_000;
      await redeliver(ports, { now: () => now });
    }
    expect(asked).toEqual(Array.from({ length: 50 }, (_, index) => String(BIG + BigInt(2 * index + 2))));
    now += 60_000;
    expect(await redeliver(ports, { now: () => now })).toMatchObject({ kind: "not-due" });
  });

  it("is left for the next turn when GitHub takes no order", async () => {
    const { github } = stub(100, 100, 2);
    let now = Date.now();
    const refusing = { ...github, redeliver: () => Promise.resolve(err({ reason: "server", status: 502 } as const)) };
    const ports = { github: refusing, turns: memory(() => now), everyMs: EVERY };
    expect(await redeliver(ports, { now: () => now })).toMatchObject({ asked: 0, waiting: 50 });
    now += 60_000;
    expect(await redeliver(ports, { now: () => now })).toMatchObject({ kind: "not-due" });
  });
});
