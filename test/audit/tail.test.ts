import * as fc from "fast-check";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Io } from "../../cli/command.ts";
import { main } from "../../cli/main.ts";
import { tailCommandFrom } from "../../cli/commands/tail.ts";
import { auditLogLine, genesis, sealEntry, type AuditEntry } from "../../shared/audit/chain.ts";
import { JsonStream, tailLines } from "../../shared/audit/tail.ts";

const T0 = Date.UTC(2026, 10, 30, 12);

async function entries(): Promise<AuditEntry[]> {
  const first = await sealEntry(await genesis("101"), T0, {
    request: "r1",
    act: "request.conclude",
    reason: "head-moved",
    facts: { head: "abc", paidMs: 1200 },
  });
  return [first, await sealEntry(first, T0 + 1, { request: null, act: "sweep.tick", reason: null, facts: {} })];
}

async function event(more: object = {}): Promise<string> {
  const logs = (await entries()).map((entry) => ({ level: "log", message: [auditLogLine("101", entry)] }));
  return JSON.stringify({ outcome: "ok", logs: [{ message: ["noise", 7] }, ...logs], exceptions: [], ...more });
}

describe("the stream", () => {
  it("gives whole objects however it is cut, spread over lines or with text between them", () => {
    const value = fc.dictionary(fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(
        fc.array(value, { maxLength: 4 }),
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        (values, size, wide) => {
          const text = values
            .map((one) => JSON.stringify(one, null, wide ? 2 : 0))
            .join("\nConnected, waiting for logs...\n");
          const stream = new JsonStream();
          const got: string[] = [];
          for (let at = 0; at < text.length; at += size) got.push(...stream.push(text.slice(at, at + size)));
          expect(got.map((one) => JSON.parse(one) as unknown)).toEqual(
            values.map((one) => JSON.parse(JSON.stringify(one)) as unknown),
          );
        },
      ),
    );
  });

  it("does not grow without bound on something that is no stream of events", () => {
    const stream = new JsonStream();
    stream.push(`{"a": "${"x".repeat(5_000_000)}`);
    expect(stream.push('{"b":1}')).toEqual(['{"b":1}']);
  });
});

describe("an event", () => {
  it("shows its audit entries and nothing else", async () => {
    expect(tailLines(await event())).toEqual([
      "2026-11-30T12:00:00.000Z  repo 101 #1  r1  request.conclude  head-moved  [head=abc paidMs=1200]  The pull request's head moved on, so this commit is no longer tested.",
      "2026-11-30T12:00:00.001Z  repo 101 #2  sweep.tick",
    ]);
  });

  it("a bare log line of the audit reads the same", async () => {
    const [entry] = await entries();
    if (entry === undefined) throw new Error("one entry was sealed");
    expect(tailLines(auditLogLine("101", entry))).toHaveLength(1);
  });

  it("shows exceptions and invocations that ended badly", async () => {
    const exceptions = [{ name: "TypeError", message: "x is null", timestamp: 1 }];
    expect(tailLines(await event({ logs: [], exceptions, outcome: "exception" }))).toEqual([
      "!! the Worker threw TypeError: x is null",
    ]);
    expect(tailLines(await event({ logs: [], outcome: "exceededCpu" }))).toEqual([
      "!! an invocation ended as exceededCpu",
    ]);
  });

  it("nothing in a log can move the reader's terminal", () => {
    const line =
      tailLines(JSON.stringify({ exceptions: [{ name: "E\u001B[2J", message: "a\r\nb\u202Ec" }], logs: [] }))[0] ?? "";
    expect(line).not.toMatch(/\p{Cc}|\p{Cf}/u);
  });

  it.each([
    ["[]"],
    ["7"],
    ["{"],
    ['{"logs": 1}'],
    ['{"logs": [{"message": null}]}'],
    ['{"audit": {"repository": "1"}}'],
  ])("%s shows nothing", (text) => {
    expect(tailLines(text)).toEqual([]);
  });
});

describe("the commands", () => {
  let folder = "";
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "audit-"));
  });
  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  function io(stdin = "") {
    const said = { stdout: "", stderr: "" };
    const port: Io = {
      stdout: (text) => void (said.stdout += text),
      stderr: (text) => void (said.stderr += text),
      stdin: () => Promise.resolve(new TextEncoder().encode(stdin)),
      env: {},
      cwd: folder,
      fetch: () => Promise.reject(new Error("no network here")),
      now: () => T0,
    };
    return { port, said };
  }

  it("audit verify: a whole audit is exit 0, from a file and from standard input, in both forms", async () => {
    const list = await entries();
    const plain = list.map((entry) => JSON.stringify(entry)).join("\n");
    await writeFile(join(folder, "a.jsonl"), `${plain}\n`);
    const file = io();
    expect(await main(["audit", "verify", "a.jsonl", "--repository", "101"], file.port)).toBe(0);
    expect(file.said.stdout).toBe(`2 entries, unbroken. Head: 2 ${list[1]?.hash ?? ""}\n`);
    const logged = io(list.map((entry) => auditLogLine("101", entry)).join("\n"));
    expect(await main(["audit", "verify", "-"], logged.port)).toBe(0);
  });

  it("audit verify: the first bad entry is named by line and number, exit 1", async () => {
    const list = await entries();
    const forged = list.map((entry) => JSON.stringify({ ...entry, act: entry.seq === 2 ? "x.y" : entry.act }));
    const { port, said } = io(`\n${forged.join("\n")}\n`);
    expect(await main(["audit", "verify", "-"], port)).toBe(1);
    expect(said.stderr).toMatch(/^Line 2, entry 2: its content is not what was sealed\./u);
  });

  it.each([
    ["cut off", (line: string) => line.slice(0, -20), "it is no JSON object"],
    ["without a field", (line: string) => line.replace(/"at":\d+,/, ""), "its field 'at' is missing"],
    ["with a field more", (line: string) => line.replace("{", '{"more":1,'), "it has a field that no entry has"],
  ])("audit verify: an audit with an entry %s is damaged, and says so in plain words", async (_what, damage, why) => {
    const lines = (await entries()).map((entry) => JSON.stringify(entry));
    const { port, said } = io(`${damage(lines[0] ?? "")}\n${lines[1] ?? ""}\n`);
    expect(await main(["audit", "verify", "-"], port)).toBe(1);
    expect(said.stderr).toMatch(/^Line 1(?:, entry 1)?: it is not an audit entry: /u);
    expect(said.stderr).toContain(why);
    expect(said.stderr).not.toMatch(/invalid input|expected/iu);
  });

  it.each([
    ["nothing", "", "is empty"],
    ["blank lines", "\n \n", "is empty"],
    ["prose", "# gpu-gate\n\nA gate.\n", "is not an audit"],
    ["other JSON", '{"name":"gpu-gate"}\n[]\n', "is not an audit"],
  ])("audit verify: %s is not an unbroken audit, and not a damaged one either: exit 2", async (_what, text, why) => {
    const { port, said } = io(text);
    expect(await main(["audit", "verify", "-", "--repository", "101"], port)).toBe(2);
    expect(said.stdout).toBe("");
    expect(said.stderr).toContain(`Standard input ${why}`);
    expect(said.stderr).not.toContain("trusted");
  });

  it("audit verify: a wrong call is exit 2", async () => {
    for (const args of [["audit"], ["audit", "verify"], ["audit", "check", "x"], ["audit", "verify", "none.jsonl"]]) {
      expect(await main(args, io().port)).toBe(2);
    }
  });

  it("tail prints lines as they arrive, not at the end", async () => {
    const text = await event();
    const { port, said } = io();
    const seen: string[] = [];
    async function* source() {
      yield await Promise.resolve(text);
      seen.push(said.stdout);
      yield text;
    }
    expect(await tailCommandFrom(source).run([], port)).toBe(0);
    expect(seen[0]?.split("\n")).toHaveLength(3);
    expect(said.stdout.split("\n")).toHaveLength(5);
  });
});
