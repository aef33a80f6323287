import {
  chooseRuntime,
  formatCudaVersion,
  judgeSmoke,
  parseCudaVersion,
  readDriverCuda,
} from "../../../shared/runpod/cuda.ts";
import { SMOKE_ANSWER } from "../../../shared/runpod/cuda.ts";
import type { CudaVersion } from "../../../shared/runpod/cuda.ts";
import * as z from "zod";
import type { CorpusAdapter } from "../adapter.ts";

const caseSchema = z.looseObject({
  nvidiaSmi: z.string(),
  minimum: z.string(),
  full: z.string(),
  vramGb: z.number().optional(),
  minVramGb: z.number().optional(),
  loadedNvrtc: z.tuple([z.number(), z.number()]).optional(),
  /** Fields some cases carry to make the kernel fail. */
  readBack: z.number().optional(),
  expected: z.looseObject({}),
});

function version(text: string): CudaVersion {
  const parsed = parseCudaVersion(text);
  if (!parsed) throw new Error(`not a version: ${text}`);
  return parsed;
}

/** Texts (`why`, `error`) are for people; everything else of the answer is compared. */
function comparable(answer: Record<string, unknown>): Record<string, unknown> {
  if ("error" in answer) return { error: true };
  const { why: _why, ...rest } = answer;
  return rest;
}

export const adapter: CorpusAdapter = {
  corpus: "nvrtc",
  run(testCase) {
    const input = caseSchema.parse(testCase);
    const expected = comparable(input.expected);
    const actual = comparable(decide(input));
    const keys = [...new Set([...Object.keys(expected), ...Object.keys(actual)])];
    return { pass: keys.every((key) => expected[key] === actual[key]), expected, actual };
  },
};

function decide(input: z.infer<typeof caseSchema>): Record<string, unknown> {
  const driver = readDriverCuda(input.nvidiaSmi);
  if (!driver.ok) return { error: driver.error.reason };
  const choice = chooseRuntime(driver.value, version(input.minimum), version(input.full));
  if (!choice.ok) return { error: choice.error.reason };
  const answered = {
    driver: formatCudaVersion(choice.value.driver),
    runtime: formatCudaVersion(choice.value.runtime),
    package: choice.value.nvrtcPackage,
    tier: choice.value.tier,
  };
  if (!input.loadedNvrtc) return answered;
  const seen = {
    loadedNvrtc: input.loadedNvrtc,
    vramMb: (input.vramGb ?? 0) * 1024,
    readBack: input.readBack ?? SMOKE_ANSWER,
  };
  const refusal = judgeSmoke(choice.value, seen, (input.minVramGb ?? 0) * 1024);
  return { ...answered, smoke: refusal ? "fail" : "pass" };
}
