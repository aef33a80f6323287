/**
 * Watches what leaves this process: set once, when it is first imported, for all files that are played in it.
 *
 * What is secret is said by whoever makes it (local/minted.ts), is learned from the traffic itself, where whatever stands in
 * an `Authorization` header belongs to the server it was first shown to, or carries the mark. Watched: addresses, headers,
 * bodies and the servers of all requests, everything printed here or by a child process, every value written to a database,
 * every file that is written, and what test factories pass on (said.ts): answers, logs, whole databases at the end.
 */
import { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import process from "node:process";
import { StatementSync } from "node:sqlite";
import { MARK, MINTED, type Minted } from "../../local/minted.ts";
import { SAID, type Said } from "./said.ts";
import { learn, show, watch } from "./watch.ts";

/** A pod's registration and nonces are in the body of its create, with which its runner signs in, and nowhere else. */
const CREATE = /^the body of POST http:\/\/[^/]+\/(?:v2\/pods|_runner\/session)$/;
const IN_CREATE = /"GPU_GATE_(?:JIT_CONFIG|PROOF_NONCE|EXIT_NONCE)":"([^"]+)"/g;
const inCreate = (place: string): boolean => CREATE.test(place);

subscribe(MINTED, (message) => {
  const { secret, for: owner } = message as Minted;
  if (owner === "registration") learn(secret, "a pod", inCreate);
  else if (owner === "nobody") learn(secret, "nobody", () => false);
  else if ("file" in owner) learn(secret, owner.file, (place) => place === `the file ${owner.file}`);
  else learn(secret, owner.origin, (place) => place === owner.origin);
});
subscribe(SAID, (message) => {
  const { place, text } = message as Said;
  watch(place, text);
});

function textOf(chunk: unknown): string {
  if (typeof chunk === "string") return chunk;
  if (!(chunk instanceof Uint8Array)) return "";
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString("latin1");
}

const fetched = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
  const shown = (headers.get("authorization") ?? "").split(" ").at(-1) ?? "";
  headers.delete("authorization");
  const place = `${init?.method ?? "GET"} ${url.origin}${url.pathname.slice(0, 60)}`;
  if (shown !== "") show(shown, url.origin, place);
  watch(`the address of ${place}`, url.href);
  watch(`a header of ${place}`, [...headers.values()].join(" "));
  if (typeof init?.body === "string") {
    const body = `the body of ${place}`;
    if (inCreate(body)) for (const [, secret = ""] of init.body.matchAll(IN_CREATE)) learn(secret, "a pod", inCreate);
    watch(body, inCreate(body) ? init.body.replaceAll(MARK, "") : init.body);
  }
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

/** A job tells the runner a secret in this one way, so that its log leaves it out; the runner takes the line away. */
const MASKED = /^::add-mask::.*$/gm;

type Spawn = (this: ChildProcess, options: unknown) => number;
const prototype = ChildProcess.prototype as unknown as { spawn: Spawn };
const { spawn } = prototype;
prototype.spawn = function watched(options) {
  const code = spawn.call(this, options);
  for (const stream of [this.stdout, this.stderr]) {
    if (stream === null || stream === undefined) continue;
    const push = stream.push.bind(stream);
    stream.push = (chunk: unknown, encoding?: BufferEncoding) => {
      if (chunk !== null)
        watch(`what ${this.spawnfile.split("/").at(-1) ?? ""} prints`, textOf(chunk).replaceAll(MASKED, ""));
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

type Write = (file: unknown, data: unknown, ...rest: unknown[]) => unknown;
/** A file by its name alone: folders are made up anew each time. */
function watchFiles(module: Record<string, unknown>, names: readonly string[]): void {
  for (const name of names) {
    const write = module[name] as Write;
    module[name] = (file: unknown, data: unknown, ...rest: unknown[]) => {
      const where = typeof file === "string" ? `the file ${file.split("/").at(-1) ?? ""}` : "a file";
      watch(where, textOf(data));
      return write(file, data, ...rest);
    };
  }
}
watchFiles(fs, ["writeFileSync", "appendFileSync", "writeSync"]);
watchFiles(fs.promises, ["writeFile", "appendFile"]);
syncBuiltinESMExports();
