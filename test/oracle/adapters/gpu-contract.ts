/** Corpus gpu-contract: tiers, CUDA versions and an excerpt of the v1 document, which enumerated both. */
import { itemEnumeration } from "../../../shared/runpod/contract.ts";
import {
  cudaVersionListSchema,
  cudaVersionProblems,
  tierListSchema,
  tierShapeProblems,
} from "../../../shared/runpod/tiers.ts";
import type { CorpusAdapter } from "../adapter.ts";

interface ContractCase {
  readonly config: unknown;
  readonly document?: unknown;
  readonly expected: { readonly ok?: true; readonly error?: string };
}

export const adapter: CorpusAdapter = {
  corpus: "gpu-contract",
  run: (testCase) => {
    const { config, document, expected } = testCase as unknown as ContractCase;
    const problem = firstProblem(config, document ?? null);
    const actual = problem === null ? { ok: true } : { error: problem };
    // Only whether it passes is compared: texts are not to be matched.
    return { pass: (problem === null) === (expected.ok === true), expected, actual };
  },
};

function firstProblem(config: unknown, document: unknown): string | null {
  const words = (config ?? {}) as Readonly<Record<string, unknown>>;
  const renamed = Array.isArray(words["gpu_tiers"]) ? words["gpu_tiers"].map(inOurWords) : words["gpu_tiers"];
  const tiers = tierListSchema.safeParse(renamed);
  const versions = cudaVersionListSchema.safeParse(words["allowed_cuda_versions"]);
  if (!tiers.success) return "tiers: not a list of names and ids";
  if (!versions.success) return "CUDA versions: not a list of texts";
  const problems = [...tierShapeProblems(tiers.data), ...cudaVersionProblems(versions.data)];
  if (problems[0] !== undefined || document === null) return problems[0] ?? null;

  const wanted = { gpuTypeIds: tiers.data.flatMap((tier) => tier.gpuIds), allowedCudaVersions: versions.data };
  for (const [field, values] of Object.entries(wanted)) {
    const known = itemEnumeration(document, "/pods", field);
    if (!known.ok) return known.error.what;
    const absent = values.filter((value) => !known.value.includes(value));
    if (absent.length > 0) return `${field}: ${absent.join(", ")}`;
  }
  return null;
}

function inOurWords(tier: unknown): unknown {
  if (typeof tier !== "object" || tier === null) return tier;
  const { name, gpu_type_ids: gpuIds } = tier as Readonly<Record<string, unknown>>;
  return { name, gpuIds };
}
