/**
 * The readers of text that somebody else wrote: workflow files, tables, reports, logs, times, tags. Each ends, none throws,
 * and each has one thing that it may never conclude.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { auditText, tailLines } from "../../shared/audit/tail.ts";
import { readPodRecord } from "../../shared/cost/record.ts";
import { sha256Hex } from "../../shared/config/hash.ts";
import { cutMarkdown, OUTPUT_LIMIT_BYTES } from "../../shared/github/check-output.ts";
import { parseExactJson } from "../../shared/github/exact-json.ts";
import { nextPageParameter } from "../../shared/github/wire.ts";
import { entriesFromLsTree, entriesFromTreeApi } from "../../shared/hosted/archive-key.ts";
import { linkProblem, parseManifest, pathProblem } from "../../shared/hosted/archive.ts";
import { evidenceFromJUnit, evidenceFromNextest, parseEvidence } from "../../shared/hosted/evidence.ts";
import { guessFormat, readInventory } from "../../shared/hosted/inventory.ts";
import { parseJUnit } from "../../shared/hosted/junit.ts";
import { nextestFilter, readPartition } from "../../shared/hosted/partition.ts";
import { lintWorkflows } from "../../shared/lint/lint.ts";
import { readDriverCuda } from "../../shared/runpod/cuda.ts";
import { lastWords, readLogStream } from "../../shared/runpod/logs.ts";
import { plainText, readProviderBody } from "../../shared/runpod/provider-text.ts";
import { parseRateLimit, parseRetryAfter } from "../../shared/runpod/rate-limit.ts";
import { ownedBy, podName, tagsFromEnv } from "../../shared/runpod/tags.ts";
import { parseHttpDate, parseTimestamp } from "../../shared/time.ts";
import { byteChange, damagedBytes, type ByteChange } from "../bytes.ts";
import { damagedJson, jsonChange, type JsonChange } from "../json.ts";
import { target, thrown, type Session } from "../target.ts";
import { damagedYaml, yamlChange, type YamlChange } from "../yaml.ts";

interface Reader {
  /** Texts that read well. */
  readonly bases: readonly string[];
  /** How a base is damaged above the level of bytes. */
  readonly as: "json" | "yaml" | "text";
  /** A sentence when something was concluded that may not be. */
  readonly read: (text: string) => string | null | Promise<string | null>;
}

const SECRET = "rpa_AAAABBBBCCCCDDDDEEEEFFFF00001111";
const lintFolder = join(import.meta.dirname, "..", "..", "test", "lint");
const workflows = ["good", "bad"].flatMap((kind) =>
  readdirSync(join(lintFolder, kind))
    .filter((name) => name.endsWith(".yml"))
    .map((name) => readFileSync(join(lintFolder, kind, name), "utf8")),
);

const JUNIT =
  '<?xml version="1.0"?>\n<testsuites time="1.5"><testsuite name="s" time="1.5"><testcase name="a" classname="m" time="0.5"/>' +
  '<testcase name="b"><failure message="x &amp; y">boom</failure></testcase><testcase name="c"><skipped/></testcase></testsuite></testsuites>';
const TIMES = [
  "2026-11-30T12:00:00.123Z",
  "2026-11-30 12:00:00 +0000 UTC",
  "Mon, 30 Nov 2026 12:00:00 GMT",
  "2026-11-30T12:00:00+14:59",
  "Monday, 30-Nov-26 12:00:00 GMT",
];
const POD_TAGS = JSON.stringify({
  GPU_GATE_DEPLOYMENT: "fuzz",
  GPU_GATE_REPOSITORY_ID: "101",
  GPU_GATE_REQUEST: "r1",
  GPU_GATE_ATTEMPT: "r1-1",
  GPU_GATE_RUN_ID: "7001",
  GPU_GATE_KEEP: "false",
});

const AUDIT = {
  repository: "101",
  seq: 1,
  at: 1_764_500_000_000,
  request: "r1",
  act: "request.conclude",
  reason: "head-moved",
  facts: { a: 1 },
};

const READERS: Readonly<Record<string, Reader>> = {
  lint: {
    bases: workflows,
    as: "yaml",
    read: (text) => {
      const findings = lintWorkflows([{ path: "w.yml", text }]);
      const lines = text.split("\n").length;
      for (const one of findings) {
        if (!(one.line >= 1 && one.line <= lines + 1 && one.column >= 1))
          return `a finding at ${one.line}:${one.column} of ${lines} lines`;
        if (one.message.trim() === "") return "a finding without words";
        if (/[\p{Cc}\p{Zl}\p{Zp}\u202e]/u.test(one.message))
          return `a finding that breaks its line: ${JSON.stringify(one.message.slice(0, 200))}`;
        if (one.message.length > 1_000) return `a finding of ${one.message.length} characters`;
      }
      return null;
    },
  },
  junit: {
    bases: [JUNIT],
    as: "text",
    read: (text) => {
      const report = parseJUnit(text);
      if (report.ok) {
        if (report.value.seconds !== null && !(report.value.seconds >= 0))
          return "a report that took less than no time";
        if (report.value.cases.length > (text.match(/<testcase/g)?.length ?? 0))
          return "more tests than the report has";
        const failed = report.value.cases.filter(({ outcome }) => outcome === "failed").length;
        if (failed > (text.match(/<(?:failure|error)/g)?.length ?? 0)) return "more failures than the report has";
      }
      const evidence = evidenceFromJUnit(text);
      return evidence.ok && !(evidence.value.tests >= 1 && Number.isSafeInteger(evidence.value.tests))
        ? "evidence of no test"
        : null;
    },
  },
  nextest: {
    bases: ["     Summary [   1.234s] 12 tests run: 12 passed, 3 skipped\n"],
    as: "text",
    read: (text) => {
      const evidence = evidenceFromNextest(text);
      return evidence.ok && !(evidence.value.tests >= 1 && Number.isSafeInteger(evidence.value.tests))
        ? "evidence of no test"
        : null;
    },
  },
  evidence: {
    bases: ['{"tests":12,"durationMs":3400}'],
    as: "text",
    read: (text) => {
      const evidence = parseEvidence(text);
      return evidence.ok && !(evidence.value.tests >= 1) ? "evidence of no test" : null;
    },
  },
  inventory: {
    bases: [
      JUNIT,
      '{"test-count":2,"rust-suites":{"a":{"binary-id":"a","testcases":{"t1":{"ignored":false}}}}}',
      "a::b: test\nc::d: test\n",
    ],
    as: "text",
    read: (text) => {
      for (const format of [guessFormat(text), "nextest", "junit", "plain"] as const) readInventory(format, text);
      return null;
    },
  },
  partition: {
    bases: ["# lane\tbinary\ttest\ngpu\ta\tone\nhost\ta\ttwo\nhost\tb::bin/x\tt(,\\)\n"],
    as: "text",
    read: (text) => {
      const table = readPartition(text);
      if (!table.ok) return table.error.line >= 1 && table.error.problem !== "" ? null : "a problem without a place";
      const keys = new Set(table.value.map(({ binary, test }) => `${binary}\u0000${test}`));
      if (keys.size !== table.value.length) return "a test in two lanes";
      nextestFilter(table.value, "host");
      return null;
    },
  },
  manifest: {
    bases: [
      `#gpu-gate-archive 1\n#part\t3072\n${"a".repeat(64)}  tests.part00\n#dir\ttarget\n#link\ttarget/l\tx\n#file\t755\t10\n${"b".repeat(64)}  tests/target/x\n`,
    ],
    as: "text",
    read: async (text) => {
      // The sum holds, so that what is behind it is read too.
      const manifest = await parseManifest("tests", `${text}#sum\t${await sha256Hex(text)}\n`);
      if (!manifest.ok) return null;
      const bad = manifest.value.entries.find(({ path }) => path.startsWith("/") || path.split("/").includes(".."));
      return bad === undefined ? null : `the path ${JSON.stringify(bad.path)} is let out of the archive`;
    },
  },
  tree: {
    bases: [
      JSON.stringify({
        sha: "a".repeat(40),
        truncated: false,
        tree: [{ path: "a/b", mode: "100644", type: "blob", sha: "b".repeat(40) }],
      }),
    ],
    as: "json",
    read: (text) => {
      const json = jsonOf(text);
      const entries = entriesFromTreeApi(json);
      const cut = typeof json === "object" && json !== null && (json as { truncated?: unknown }).truncated === true;
      return entries.ok && cut ? "a tree that was cut counts as whole" : null;
    },
  },
  lsTree: {
    bases: [`100644 blob ${"a".repeat(40)}\ta/b\u0000100755 blob ${"b".repeat(40)}\tc\u0000`],
    as: "text",
    read: (text) => {
      entriesFromLsTree(new TextEncoder().encode(text));
      return null;
    },
  },
  paths: {
    bases: ["target/debug/a", "a/../b", "lib/libx.so"],
    as: "text",
    read: (text) => {
      const parts = text.split("/");
      if (pathProblem(text) === null && (text.startsWith("/") || parts.includes("..") || text.includes("\u0000")))
        return `the path ${JSON.stringify(text.slice(0, 80))} is let out of the archive`;
      if (linkProblem("a/b", text) === null && (text.startsWith("/") || escapes("a/b", text)))
        return `the link ${JSON.stringify(text.slice(0, 80))} is let out of the archive`;
      return null;
    },
  },
  provider: {
    bases: [
      '{"title":"Bad Request","detail":"no longer any instances","errors":["x"],"status":400}',
      "<html>403</html>",
      `{"error":"key ${SECRET} is bad"}`,
    ],
    as: "json",
    read: (text) => {
      const shown = plainText(text, [SECRET]);
      readProviderBody(text);
      if (shown.includes(SECRET)) return "a secret is shown";
      // oxlint-disable-next-line no-control-regex
      return shown.length > 320 || /[\n\r\u0000-\u0008\u202e]/.test(shown)
        ? "a text that breaks its line or is too long"
        : null;
    },
  },
  logs: {
    bases: [
      'data: {"source":"container","line":"[gpu-gate] REFUSED (x)","ts":"t"}\n\ndata: {"source":"system","line":"pulling"}\n\n',
    ],
    as: "text",
    read: (text) => {
      const words = lastWords(readLogStream(text, [SECRET]), () => false);
      return words !== null && (words.length > 200 || /[^A-Za-z0-9 .,:;()'/_+=%-]/.test(words))
        ? `last words that are not plain: ${JSON.stringify(words.slice(0, 200))}`
        : null;
    },
  },
  times: {
    bases: TIMES,
    as: "text",
    read: (text) => {
      for (const at of [parseTimestamp(text), parseHttpDate(text)]) {
        if (at !== null && (!Number.isSafeInteger(at) || Number.isNaN(new Date(at).getTime()))) return `the time ${at}`;
      }
      const wait = parseRetryAfter(text, 0);
      return wait !== null && !(wait >= 0 && Number.isFinite(wait)) ? `the wait ${wait}` : null;
    },
  },
  limits: {
    bases: [
      '"minute";r=0;t=12, "hour";r=2800;t=1812',
      '<https://x.test/?cursor=a%20b&page=2>; rel="next", <y>; rel="last"',
      "120",
    ],
    as: "text",
    read: (text) => {
      nextPageParameter(text, "page");
      const bad = parseRateLimit(text).find((one) => !Number.isFinite(one.resetsInMs) || one.remaining < 0);
      return bad === undefined ? null : "a window that never ends";
    },
  },
  tags: {
    bases: [POD_TAGS],
    as: "json",
    read: (text) => {
      const env = jsonOf(text);
      const tags = tagsFromEnv(env);
      const identity = { deployment: "fuzz", repositoryId: "101", attemptId: "r1-1" };
      const owned = ownedBy({ id: "p", name: podName(identity), tags }, "fuzz");
      const said = (name: string): unknown =>
        typeof env === "object" && env !== null && Object.hasOwn(env, name) ? Reflect.get(env, name) : undefined;
      if (owned.kind !== "own") return null;
      const ours =
        said("GPU_GATE_DEPLOYMENT") === "fuzz" &&
        said("GPU_GATE_REPOSITORY_ID") === "101" &&
        said("GPU_GATE_ATTEMPT") === "r1-1";
      return ours ? null : "somebody else's pod is taken for ours";
    },
  },
  exactJson: {
    bases: ['{"id":9007199254740993,"n":1.5,"a":[12345678901234567890],"t":"12345678901234567890"}'],
    as: "json",
    read: (text) => {
      const plain = jsonOf(text);
      let exact: unknown;
      try {
        exact = parseExactJson(text);
      } catch (error) {
        if (!(error instanceof SyntaxError)) return `it threw ${thrown(error)}`;
        // The engine reads deeper than it can walk with a reviver.
        return plain === undefined || error.message.includes("nested too deep") ? null : "JSON that is refused";
      }
      return plain === undefined ? "something that is no JSON was read" : sameShape(plain, exact);
    },
  },
  markdown: {
    bases: [
      "# A\n\n| a | b |\n| - | - |\n| `x` | **y** |\n",
      "```\ncode\n```\n",
      `<details>${"x".repeat(70_000)}</details>🦄`,
    ],
    as: "text",
    read: (text) => {
      const cut = cutMarkdown(text);
      return Buffer.byteLength(cut) > OUTPUT_LIMIT_BYTES ? `an output of ${Buffer.byteLength(cut)} bytes` : null;
    },
  },
  audit: {
    bases: [
      JSON.stringify({ outcome: "ok", logs: [{ message: [JSON.stringify({ audit: AUDIT })] }], exceptions: [] }),
      JSON.stringify({ audit: AUDIT }),
    ],
    as: "json",
    read: (text) => {
      for (const line of tailLines(text))
        // oxlint-disable-next-line no-control-regex
        if (/[\n\r\u0000-\u0008\u001b]/.test(line)) return `a line that breaks: ${JSON.stringify(line.slice(0, 200))}`;
      auditText("101", { seq: 1, at: 0, request: null, act: text, reason: text, facts: { a: text } } as never);
      return null;
    },
  },
  record: {
    bases: [JSON.stringify({ id: "p", cost: 0.2, startedAt: "2026-11-30T12:00:00Z", machine: { dataCenterId: "EU" } })],
    as: "json",
    read: (text) => {
      const record = readPodRecord(jsonOf(text));
      const price = record?.adjustedPrice ?? record?.listPrice ?? null;
      return typeof price === "number" && !Number.isFinite(price) ? `the price ${price}` : null;
    },
  },
  cuda: {
    bases: ["| NVIDIA-SMI 570.1   Driver Version: 570.1   CUDA Version: 12.8 |"],
    as: "text",
    read: (text) => {
      readDriverCuda(text);
      return null;
    },
  },
};

/** Where a link in the folder of `path` leads, by counting. */
function escapes(path: string, target_: string): boolean {
  let depth = path.split("/").length - 1;
  for (const part of target_.split("/")) {
    if (part === "..") depth -= 1;
    else if (part !== "." && part !== "") depth += 1;
    if (depth < 0) return true;
  }
  return false;
}

/** Numbers may have become their own digits; nothing else may differ. */
function sameShape(plain: unknown, exact: unknown): string | null {
  if (typeof plain === "number" && typeof exact === "string")
    return Number(exact) === plain ? null : "digits of another number";
  if (Array.isArray(plain) && Array.isArray(exact)) {
    if (plain.length !== exact.length) return "a list of another length";
    for (const [index, item] of (plain as readonly unknown[]).entries()) {
      const wrong = sameShape(item, exact[index]);
      if (wrong !== null) return wrong;
    }
    return null;
  }
  if (typeof plain === "object" && plain !== null) {
    if (typeof exact !== "object" || exact === null) return "an object that is none";
    for (const key of Object.keys(plain)) {
      const wrong = sameShape(Reflect.get(plain, key), Reflect.get(exact, key));
      if (wrong !== null) return wrong;
    }
    return null;
  }
  return Object.is(plain, exact) ? null : "another value";
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const NAMES = Object.keys(READERS);

/** Pieces that text readers are known to trip over. */
const PIECES: readonly string[] = [
  "\t",
  "\r",
  "\u2028",
  "\u0000",
  "\uFEFF",
  "../",
  "//",
  "/",
  "&#x110000;",
  "&#xD800;",
  "&lt",
  "<![CDATA[",
  "]]>",
  "<!--",
  "<!DOCTYPE x [<!ENTITY a 'b'>]>",
  '<testcase name="',
  "</testsuite>",
  "\ud800",
  "1e999",
  "9".repeat(40),
  "-1",
  '"'.repeat(30),
  "a ".repeat(5_000),
  "<".repeat(3_000),
  "=".repeat(3_000),
  " ".repeat(20_000),
  "\\".repeat(999),
  "\n".repeat(3_000),
  "```",
  "\u001b[31m",
  "🦄",
  "\u202e",
];

export interface ParserCase {
  readonly reader: string;
  readonly base: number;
  readonly json: readonly JsonChange[];
  readonly yaml: readonly YamlChange[];
  readonly bytes: readonly ByteChange[];
  readonly pieces: readonly { readonly piece: number; readonly at: number }[];
}

export const parsers = target<ParserCase>({
  name: "parsers",
  about: "the readers of files, tables, logs, times and tags",
  share: 40,
  sample: 300,
  cases: fc.record({
    reader: fc.constantFrom(...NAMES),
    base: fc.nat(99),
    json: fc.array(jsonChange, { maxLength: 3 }),
    yaml: fc.array(yamlChange, { maxLength: 4 }),
    bytes: fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(byteChange, { minLength: 1, maxLength: 4 }) },
    ),
    pieces: fc.array(fc.record({ piece: fc.nat(PIECES.length - 1), at: fc.nat(999) }), { maxLength: 3 }),
  }),
  open: async () => openParsers(READERS),
});

export function openParsers(readers: Readonly<Record<string, Reader>>): Session<ParserCase> {
  return {
    async judge(given) {
      const reader = readers[given.reader];
      if (reader === undefined) return null;
      const base = reader.bases[given.base % reader.bases.length] ?? "";
      let text = base;
      const json = jsonOf(base);
      if (reader.as === "json" && json !== undefined) text = damagedJson(json, given.json);
      if (reader.as === "yaml") text = damagedYaml(base, given.yaml);
      for (const { piece, at } of given.pieces) {
        const place = Math.floor((at / 1000) * text.length);
        text = text.slice(0, place) + (PIECES[piece % PIECES.length] ?? "") + text.slice(place);
      }
      if (given.bytes.length > 0) text = Buffer.from(damagedBytes(Buffer.from(text), given.bytes)).toString("utf8");
      let wrong: string | null;
      try {
        wrong = await reader.read(text);
      } catch (error) {
        wrong = `it threw ${thrown(error)}`;
      }
      return wrong === null ? null : `${given.reader}: ${wrong}, from ${JSON.stringify(text.slice(0, 300))}`;
    },
    close: async () => undefined,
  };
}
