/**
 * Watches a test file for secrets that leave their one place. Works for a test file that imports it, or for all of them as a setup file.
 *
 * What is secret is learned from the traffic itself: whatever stands in an `Authorization` header belongs to the server it
 * was first shown to, and a pod's registration and nonces to RunPod; and any text with the mark below is secret wherever it
 * comes from. Watched: addresses, headers, bodies and the servers of all requests, everything printed here or by a child
 * process, every value written to a database. A leak fails the test that runs, by name, with the place and without the value.
 */
import { ChildProcess } from "node:child_process";
import process from "node:process";
import { StatementSync } from "node:sqlite";
import { afterEach, beforeEach, expect } from "vitest";

/** Secrets that tests make up carry it. */
export const MARK = "canary-";
/** Shorter words are no secret that anybody would use, and would be found in ordinary text. */
const MIN_LENGTH = 20;
/** A text of this process's own that is longer is looked through in part: the first and the last of it. */
const LOOKED_AT = 400_000;

const homes = new Map<string, string>();
const leaks: string[] = [];
let test = "before the first test";

/** `home` is the origin it may be shown to. */
function learn(secret: string, home: string): void {
  if (secret.length >= MIN_LENGTH && !homes.has(secret)) homes.set(secret, home);
}

/** Notes what of `text` is secret and not at home. */
function watch(where: string, text: string, home = ""): void {
  if (text.length < MIN_LENGTH) return;
  const seen = text.length > LOOKED_AT ? `${text.slice(0, LOOKED_AT)}${text.slice(-LOOKED_AT)}` : text;
  if (seen.includes(MARK)) leaks.push(`${test}: something marked as secret in ${where}`);
  for (const [secret, its] of homes) {
    if (its !== home && seen.includes(secret)) leaks.push(`${test}: the credential of ${its} in ${where}`);
  }
}

function textOf(chunk: unknown): string {
  if (typeof chunk === "string") return chunk;
  return chunk instanceof Uint8Array ? new TextDecoder().decode(chunk) : "";
}

/** What was found since it was last asked; empty when nothing was. For the tests of this file. */
export function takeLeaks(): readonly string[] {
  return leaks.splice(0);
}

const fetched = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
  const shown = (headers.get("authorization") ?? "").split(" ").at(-1) ?? "";
  headers.delete("authorization");
  const place = `${init?.method ?? "GET"} ${url.origin}${url.pathname.slice(0, 60)}`;
  if (shown !== "") {
    const home = homes.get(shown);
    if (home !== undefined && home !== url.origin) leaks.push(`${test}: the credential of ${home} shown to ${place}`);
    learn(shown, url.origin);
  }
  watch(`the address of ${place}`, url.href);
  watch(`a header of ${place}`, [...headers.values()].join(" "));
  if (typeof init?.body === "string") watch(`the body of ${place}`, init.body, `${url.origin} `);
  return fetched(input, init);
};

for (const stream of [process.stdout, process.stderr]) {
  const write = stream.write.bind(stream);
  stream.write = (chunk: unknown, ...rest: []) => {
    watch("what is printed", textOf(chunk));
    return write(chunk as string, ...rest);
  };
}
for (const name of ["log", "info", "warn", "error", "debug"] as const) {
  const print = console[name].bind(console);
  console[name] = (...args: unknown[]) => {
    watch(`console.${name}`, args.map(String).join(" "));
    print(...args);
  };
}

type Spawn = (this: ChildProcess, options: unknown) => number;
const prototype = ChildProcess.prototype as unknown as { spawn: Spawn };
const { spawn } = prototype;
prototype.spawn = function watched(options) {
  const code = spawn.call(this, options);
  for (const stream of [this.stdout, this.stderr]) {
    if (stream === null || stream === undefined) continue;
    const push = stream.push.bind(stream);
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk !== null) watch(`what ${this.spawnfile.split("/").at(-1) ?? ""} prints`, textOf(chunk));
      return push(chunk, encoding);
    };
  }
  return code;
};

type Run = (this: StatementSync, ...values: unknown[]) => unknown;
for (const name of ["all", "run", "get"] as const) {
  const statements = StatementSync.prototype as unknown as Record<typeof name, Run>;
  const run = statements[name];
  statements[name] = function watched(...values) {
    for (const value of values) if (typeof value === "string") watch("a value for the database", value);
    return run.apply(this, values);
  };
}

beforeEach((context) => {
  test = context.task.name;
});

afterEach(() => {
  const found = [...new Set(takeLeaks())];
  if (found.length > 0) expect.fail(`A secret left its place:\n${found.join("\n")}`);
});
