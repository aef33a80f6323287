/**
 * Split and join of a large archive against `split`, `cat` and `sha256sum` doing the least that gives the same parts and
 * checksums, in the same run on the same file. Bounds: 0.8 of their speed or better, memory growth of 64 MiB or less.
 *
 * 256 MiB unless GPU_GATE_BENCH_ARCHIVE_MB says otherwise; the full size is 4096. Each side runs in a process of its own
 * and gets the files from a warm page cache.
 */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { joinArchive } from "../cli/transport/join.ts";
import { loadManifest } from "../cli/transport/parts.ts";
import { splitArchive } from "../cli/transport/split.ts";
import type { BenchRow } from "./probe.ts";

const MIB = 1 << 20;
const SIZE_ENV = "GPU_GATE_BENCH_ARCHIVE_MB";

interface Timing {
  readonly seconds: number;
  readonly growthMib: number;
}

export async function run(): Promise<BenchRow[]> {
  const megabytes = Number(process.env[SIZE_ENV] ?? "256");
  if (!Number.isInteger(megabytes) || megabytes < 1) throw new Error(`${SIZE_ENV} is a whole number of MiB`);
  const folder = mkdtempSync(join(tmpdir(), "gpu-gate-bench-"));
  try {
    makeFile(join(folder, "archive.bin"), megabytes);
    const split = ours("split", folder);
    const joined = ours("join", folder);
    const splitTools = tools(
      folder,
      "mkdir tools && split -n 5 -d archive.bin tools/part && sha256sum archive.bin tools/part* > sums",
    );
    const joinTools = tools(
      folder,
      "grep ' tools/' sums | sha256sum -c --quiet && cat tools/part* > archive.out && sed -n 's/archive.bin/archive.out/p' sums | sha256sum -c --quiet",
    );
    if (!readFileSync(join(folder, "parts/archive.manifest"), "utf8").includes(firstSum(folder)))
      throw new Error("the manifest and sha256sum disagree about the same file");
    const note = `${megabytes} MiB in one file; speed against split, cat and sha256sum in the same run, bound 0.8`;
    return [
      { name: "archive split", value: megabytes / split.seconds, unit: "MiB/s", note: `${split.seconds.toFixed(2)} s` },
      { name: "split + sha256sum", value: megabytes / splitTools, unit: "MiB/s", note: `${splitTools.toFixed(2)} s` },
      { name: "archive split, relative speed", value: splitTools / split.seconds, unit: "x", note },
      { name: "archive split, memory growth", value: split.growthMib, unit: "MiB", note: "peak over start, bound 64" },
      {
        name: "archive join",
        value: megabytes / joined.seconds,
        unit: "MiB/s",
        note: `${joined.seconds.toFixed(2)} s`,
      },
      {
        name: "sha256sum + cat + sha256sum",
        value: megabytes / joinTools,
        unit: "MiB/s",
        note: `${joinTools.toFixed(2)} s`,
      },
      { name: "archive join, relative speed", value: joinTools / joined.seconds, unit: "x", note },
      { name: "archive join, memory growth", value: joined.growthMib, unit: "MiB", note: "peak over start, bound 64" },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Content that no block repeats, made from one random block with a counter, so that 4 GiB take seconds. */
function makeFile(path: string, megabytes: number): void {
  const block = Buffer.alloc(MIB);
  for (let at = 0, state = 1; at < MIB; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    block.writeUInt32LE(state, at);
  }
  const file = openSync(path, "w");
  for (let index = 0; index < megabytes; index += 1) {
    block.writeUInt32LE(index, 0);
    writeSync(file, block);
  }
  closeSync(file);
}

function ours(kind: "split" | "join", folder: string): Timing {
  const child = spawnSync(process.execPath, [import.meta.filename, kind, folder], { encoding: "utf8" });
  if (child.status !== 0) throw new Error(`${kind} failed: ${child.stderr}`);
  return JSON.parse(child.stdout) as Timing;
}

/** Seconds that a pipeline of the usual tools takes. */
function tools(folder: string, script: string): number {
  const before = performance.now();
  const child = spawnSync("bash", ["-euo", "pipefail", "-c", script], { cwd: folder, encoding: "utf8" });
  if (child.status !== 0) throw new Error(`the tools failed: ${child.stderr}`);
  return (performance.now() - before) / 1000;
}

function firstSum(folder: string): string {
  return readFileSync(join(folder, "sums"), "utf8").slice(0, 64);
}

async function work(kind: string, folder: string): Promise<Timing> {
  const rssBefore = process.memoryUsage.rss();
  const before = performance.now();
  const parts = join(folder, "parts");
  if (kind === "split")
    await splitArchive({ inputs: [join(folder, "archive.bin")], folder: parts, name: "archive", parts: 5 });
  else {
    const problems = await joinArchive({
      folder: parts,
      manifest: await loadManifest(parts, "archive"),
      target: join(folder, "out"),
    });
    if (problems.length > 0) throw new Error(problems.join(" "));
  }
  const seconds = (performance.now() - before) / 1000;
  // maxRSS is in KiB and covers the process's whole life, start-up included, so growth is never understated.
  return { seconds, growthMib: process.resourceUsage().maxRSS / 1024 - rssBefore / MIB };
}

if (import.meta.main) {
  const [kind = "", folder = ""] = process.argv.slice(2);
  if (kind === "split" || kind === "join") process.stdout.write(JSON.stringify(await work(kind, folder)));
  else
    for (const row of await run()) console.log(`${row.name}: ${row.value.toFixed(2)} ${row.unit} (${row.note ?? ""})`);
}
