/** The watch over the whole suite (test/support/canaries.ts) can object: a leak is planted in each place that it watches. */
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { minted } from "../../local/minted.ts";
import { nodeSql } from "../support/node-sql.ts";
import { said, saidIn, saidRows } from "../support/said.ts";
import { MARK, takeLeaks } from "../support/watch.ts";

const secret = (name: string) => `${MARK}${name}-0123456789abcdef`;

/** A server that takes everything: `[its own address, another name of it]`. */
const server = createServer((_request, response) => response.end("{}"));
const folder = mkdtempSync(join(tmpdir(), "gpu-gate-canaries-"));
let home = "";
let elsewhere = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  home = `http://127.0.0.1:${port}`;
  elsewhere = `http://localhost:${port}`;
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  server.closeAllConnections();
  server.close();
});

const show = (url: string, token: string) =>
  fetch(url, { headers: { authorization: `Bearer ${token}` } }).catch(() => null);

describe("a planted leak is found, with the name of the test and the place", () => {
  const places: Readonly<Record<string, readonly [() => unknown, RegExp]>> = {
    "in an address": [() => fetch(`${home}/?token=${secret("a")}`), /marked as secret in the address of GET http:/],
    "in a header that is not for it": [() => fetch(home, { headers: { "x-key": secret("b") } }), /in a header of GET/],
    "in a body": [() => fetch(home, { method: "POST", body: `{"text":"${secret("c")}"}` }), /in the body of POST/],
    "by a child process": [
      () => promisify(execFile)(process.execPath, ["-e", `console.log(["cana","ry-in-a-child-0123456789"].join(""))`]),
      /what node prints/,
    ],
    "in a file": [
      () => writeFileSync(join(folder, "report.json"), secret("e")),
      /marked as secret in the file report\.json/,
    ],
    "in an answer": [
      () => saidIn("/api/status", new Response(secret("f"))),
      /marked as secret in the answer to \/api\/status/,
    ],
    "in a header of an answer": [
      () => saidIn("/", new Response("", { headers: { "x-key": secret("g") } })),
      /in the headers of the answer to \//,
    ],
    "in a row at the end": [
      () => {
        const sql = nodeSql();
        sql.exec("CREATE TABLE t (x TEXT)");
        sql.exec("INSERT INTO t SELECT 'cana' || 'ry-' || '0123456789abcdef0123456789'");
        saidRows("the gate", sql);
        sql.close();
      },
      /marked as secret in the table t of the gate/,
    ],
    "a cut token of the local GitHub": [
      () => said("the log", minted(`ghs_1_${secret("h")}${"x".repeat(300)}`, { origin: home }).slice(0, 90)),
      /the credential of http:\S+ in the log/,
    ],
    "in a database": [
      () => {
        const database = new DatabaseSync(":memory:");
        database.exec("CREATE TABLE t (x TEXT)");
        database.prepare("INSERT INTO t VALUES (?)").run(secret("d"));
        database.close();
      },
      /a value for the database/,
    ],
    "to another server than it was first shown to": [
      async () => {
        await show(home, "a-token-that-has-a-home-1");
        await show(elsewhere, "a-token-that-has-a-home-1");
      },
      /the credential of http:\/\/127\.0\.0\.1:\d+ shown to GET http:\/\/localhost/,
    ],
    "of a credential in a body for its own server": [
      async () => {
        await show(home, "a-token-that-has-a-home-2");
        await fetch(home, { method: "POST", body: "text with a-token-that-has-a-home-2 inside" });
      },
      /the credential of http:\/\/127\.0\.0\.1:\d+ in the body of POST/,
    ],
  };

  it.each(Object.entries(places))("%s", async (name, [leak, told]) => {
    takeLeaks();
    await leak();
    const found = takeLeaks();
    expect(found.join("\n")).toMatch(told);
    expect(found[0]).toContain(`${name}: `);
    // The place is named, the secret is not repeated.
    expect(found.join("\n")).not.toMatch(/0123456789|has-a-home/);
  });

  it("and what is at home is not", async () => {
    takeLeaks();
    await show(home, "a-token-that-has-a-home-3");
    await show(home, "a-token-that-has-a-home-3");
    expect(takeLeaks()).toEqual([]);
  });
});
