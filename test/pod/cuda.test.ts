import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import {
  chooseRuntime,
  compareCudaVersions,
  formatCudaVersion,
  judgeSmoke,
  parseCudaVersion,
  readDriverCuda,
} from "../../shared/runpod/cuda.ts";
import type { CudaVersion } from "../../shared/runpod/cuda.ts";
import { podExitSchema, podProofSchema } from "../../shared/runpod/pod-words.ts";
import { adapter } from "../oracle/adapters/nvrtc.ts";
import type { Corpus } from "../oracle/adapter.ts";
import { removeFolders, runPod } from "./harness.ts";

afterEach(removeFolders);

/** What the TypeScript rules say: the chosen NVRTC, or why there is none. */
function decide(nvidiaSmi: string): string {
  const driver = readDriverCuda(nvidiaSmi);
  if (!driver.ok) return driver.error.reason;
  const choice = chooseRuntime(driver.value);
  return choice.ok
    ? `${formatCudaVersion(choice.value.driver)} -> ${formatCudaVersion(choice.value.runtime)}`
    : choice.error.reason;
}

/** What the start script says about the same text. */
async function decideOnPod(cuda: string): Promise<string> {
  const run = await runPod({ gpu: { cuda } });
  const proof = podProofSchema.safeParse(run.calls[0]?.body);
  if (proof.success) return `${proof.data.cuda} -> ${proof.data.nvrtc}`;
  return podExitSchema.parse(run.calls[0]?.body).reason;
}

describe("the driver decides which NVRTC a pod gets", () => {
  const table: readonly (readonly [cuda: string, decision: string])[] = [
    ["12.6", "12.6 -> 12.6"],
    ["12.7", "12.7 -> 12.6"],
    ["12.8", "12.8 -> 12.8"],
    ["12.10", "12.10 -> 12.8"],
    ["13.0", "13.0 -> 12.8"],
    ["  13.1", "13.1 -> 12.8"],
    ["12.08", "12.8 -> 12.8"],
    ["012.6", "12.6 -> 12.6"],
    ["100.0", "100.0 -> 12.8"],
    ["12.6.1", "12.6 -> 12.6"],
    ["12.5", "driver-too-old"],
    ["12.4", "driver-too-old"],
    ["11.9", "driver-too-old"],
    ["2.60", "driver-too-old"],
    ["9.99", "driver-too-old"],
    ["0.0", "driver-too-old"],
    ["N/A", "driver-unreadable"],
    ["12", "driver-unreadable"],
    ["12.", "driver-unreadable"],
    ["v12.8", "driver-unreadable"],
    ["-12.8", "driver-unreadable"],
    ["", "driver-unreadable"],
    ["12,8", "driver-unreadable"],
    ["123456.8", "driver-unreadable"],
  ];

  it.each(table)("CUDA Version: %s -> %s, in TypeScript and on the pod alike", async (cuda, decision) => {
    expect(decide(`| NVIDIA-SMI 570.86.15  CUDA Version: ${cuda} |`)).toBe(decision);
    expect(await decideOnPod(cuda)).toBe(decision);
  });

  it("takes the first version that nvidia-smi names", () => {
    expect(decide("CUDA Version: 12.6\nCUDA Version: 13.0")).toBe("12.6 -> 12.6");
  });

  it("reads 12 as 12.0 in configuration, and nothing but numbers", () => {
    expect(parseCudaVersion("12")).toEqual([12, 0]);
    expect(["", "12.", ".8", "12.8 ", "12.8.1", "x"].map(parseCudaVersion)).toEqual([
      null,
      null,
      null,
      null,
      null,
      null,
    ]);
  });

  it("orders versions as pairs of numbers", () => {
    const versions: CudaVersion[] = [
      [12, 10],
      [12, 8],
      [11, 20],
      [13, 0],
    ];
    expect(versions.sort(compareCudaVersions).map(formatCudaVersion)).toEqual(["11.20", "12.8", "12.10", "13.0"]);
  });
});

describe("a smoke observation", () => {
  const choice = chooseRuntime([12, 8]);
  if (!choice.ok) throw new Error("12.8 must be good enough");
  const good = { loadedNvrtc: [12, 8] as CudaVersion, vramMb: 8192, readBack: 42 };

  it.each([
    [{}, null],
    [{ loadedNvrtc: [12, 6] as CudaVersion }, "nvrtc-older-than-chosen"],
    [{ loadedNvrtc: [12, 9] as CudaVersion }, "nvrtc-newer-than-driver"],
    [{ vramMb: 8191 }, "vram-below-minimum"],
    [{ readBack: 41 }, "wrong-answer"],
    [{ readBack: null }, "wrong-answer"],
  ])("%j is judged %s", (change, verdict) => {
    expect(judgeSmoke(choice.value, { ...good, ...change }, 8192)).toBe(verdict);
  });
});

const samples = join(import.meta.dirname, "../../../shared/examples/nvrtc.json");

describe.skipIf(!existsSync(samples))("the nvrtc examples (skipped where they are not at hand)", () => {
  it("are all answered alike", async () => {
    const corpus = JSON.parse(readFileSync(samples, "utf8")) as Corpus;
    const outcomes = await Promise.all(corpus.cases.map(async (row) => adapter.run(row, corpus, "")));
    expect(outcomes.filter((outcome) => !outcome.pass)).toEqual([]);
    expect(outcomes.length).toBeGreaterThan(0);
  });
});
