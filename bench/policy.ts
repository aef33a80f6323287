/**
 * The change policy at its stated sizes: 3,000 changed files against 200 patterns (bound: 20 ms, in Node and in
 * workerd), and a replay of 10,000 commits under two configurations (bound: 10 s).
 */
import { execFileSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare } from "miniflare";
import { main } from "../cli/main.ts";
import { benchChange, benchConfig, FILES, PATTERNS } from "./policy-case.ts";
import { changePolicy } from "../shared/policy/classify.ts";

export interface BenchRow {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly note?: string;
}

const ROUNDS = 50;
const COMMITS = 10_000;
const SIZE = `${FILES.toLocaleString("en")} files, ${PATTERNS} patterns`;

export async function run(): Promise<BenchRow[]> {
  return [...inNode(), await inWorkerd(), await replay()];
}

/** Each round prepares the policy anew, as a cold gate would. */
function inNode(): BenchRow[] {
  const config = benchConfig();
  const change = benchChange();
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = performance.now();
    const result = changePolicy(config).classify(change);
    times.push(performance.now() - before);
    if (result.classification !== "ci-only") throw new Error("the benchmark's change must be judged path by path");
  }
  const first = times[0] ?? 0;
  times.sort((a, b) => a - b);
  const note = "policy prepared and change classified; the bound is 20 ms";
  return [
    { name: `policy: ${SIZE}, Node, first call`, value: first, unit: "ms", note: `${note}; cold` },
    { name: `policy: ${SIZE}, Node, median`, value: times[ROUNDS / 2] ?? 0, unit: "ms", note },
  ];
}

/**
 * workerd's clock stands still while code runs, so the time is taken outside: requests that classify `ROUNDS` times,
 * less requests that classify not at all.
 */
async function inWorkerd(): Promise<BenchRow> {
  const bundle = await build({
    entryPoints: [join(import.meta.dirname, "policy-worker.ts")],
    bundle: true,
    format: "esm",
    target: "es2024",
    write: false,
  });
  const code = bundle.outputFiles[0]?.text ?? "";
  const worker = new Miniflare({
    host: "127.0.0.1",
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name: "policy",
          compatibilityDate: "2026-11-01",
          manifest: { mainModule: "index.js", modules: { "index.js": { type: "esm", contents: code } } },
        },
      },
    ],
  });
  try {
    const timed = async (rounds: number): Promise<number> => {
      const before = performance.now();
      const answer = await worker.dispatchFetch(`http://policy.test/?rounds=${rounds}`);
      const text = await answer.text();
      if (text !== "ok") throw new Error(`the benchmark worker answered: ${text}`);
      return performance.now() - before;
    };
    await timed(ROUNDS);
    const value = Math.max(0, (await timed(ROUNDS)) - (await timed(0))) / ROUNDS;
    return { name: `policy: ${SIZE}, workerd, mean`, value, unit: "ms", note: "the bound is 20 ms" };
  } finally {
    await worker.dispose();
  }
}

/** The whole command on a repository made for it: one commit each minute, three files each. */
async function replay(): Promise<BenchRow> {
  const folder = await mkdtemp(join(tmpdir(), "what-if-"));
  try {
    execFileSync("git", ["init", "-q", "-b", "main"], { cwd: folder });
    execFileSync("git", ["fast-import", "--quiet"], { cwd: folder, input: fastImport() });
    await writeFile(join(folder, "old.yml"), "version: 1\npaths: {docs: {prefixes: [docs/]}}\n");
    await writeFile(join(folder, "new.yml"), "version: 1\npaths: {docs: {prefixes: [docs/, notes/]}}\n");
    let out = "";
    const before = performance.now();
    const code = await main(["classify", "--config", "new.yml", "--against", "old.yml", "--since", "90d", "--json"], {
      stdout: (text) => void (out += text),
      stderr: (text) => {
        throw new Error(text);
      },
      stdin: () => Promise.resolve(new Uint8Array()),
      env: {},
      cwd: folder,
      fetch: () => Promise.reject(new Error("no network")),
      now: () => (START + COMMITS * 60) * 1000,
    });
    const value = (performance.now() - before) / 1000;
    const { totals } = JSON.parse(out) as { totals: { changes: number; different: number } };
    if (code !== 0 || totals.changes !== COMMITS) throw new Error(`the replay saw ${totals.changes} commits`);
    const name = `what-if: ${COMMITS.toLocaleString("en")} commits under two configurations`;
    return { name, value, unit: "s", note: `${totals.different} differ; the bound is 10 s` };
  } finally {
    await rm(folder, { recursive: true });
  }
}

const START = 1_790_000_000;

function fastImport(): string {
  const lines: string[] = [];
  for (let n = 0; n < COMMITS; n += 1) {
    const folder = ["docs", "notes", "src"][n % 3] ?? "src";
    lines.push(
      `commit refs/heads/main`,
      `committer a <a@example.org> ${START + n * 60} +0000`,
      `data <<E\nchange ${n}\nE`,
    );
    for (let file = 0; file < 3; file += 1) {
      lines.push(`M 100644 inline ${folder}/${(n * 7 + file) % 500}.md`, `data <<E\n${n} ${file}\nE`);
    }
  }
  return `${lines.join("\n")}\n`;
}
