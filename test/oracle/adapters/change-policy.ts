/**
 * change-policy.json: raw paths and an event to a class and lane flags, under both path sets of
 * change-policy.config.json.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { configFrom } from "../../../shared/config/load.ts";
import { plainFile } from "../../../shared/policy/changes.ts";
import { changePolicy, type ChangePolicy, type Classification } from "../../../shared/policy/classify.ts";
import { pathsFromText } from "../../../shared/policy/paths.ts";
import type { CorpusAdapter, CorpusCase, Outcome } from "../adapter.ts";

interface PathSets {
  readonly docsFiles: string[];
  readonly docsPrefixes: string[];
  readonly docsExceptPrefixes: string[];
  readonly ciFiles: string[];
  readonly ciPrefixes: string[];
  readonly macosControlFiles: string[];
  readonly gpuDeviceControlFiles: string[];
  readonly gpuHostedOnlyFiles: string[];
}

const KEYS = ["upstream", "seedSplit"] as const;
type Key = (typeof KEYS)[number];

/** The corpus's path sets as a configuration of ours. */
function policyOf(sets: PathSets): ChangePolicy {
  return changePolicy(
    configFrom({
      paths: {
        docs: { files: sets.docsFiles, prefixes: sets.docsPrefixes, except_prefixes: sets.docsExceptPrefixes },
        ci: { files: sets.ciFiles, prefixes: sets.ciPrefixes },
      },
      lanes: {
        rust: {},
        blas: {},
        extensions: {},
        docs: { asked_by: ["docs"] },
        ci_config: { asked_by: ["ci"] },
        gpu: { control: { files: sets.gpuDeviceControlFiles }, hosted_only: { files: sets.gpuHostedOnlyFiles } },
        macos: { control: { files: sets.macosControlFiles } },
      },
    }),
  );
}

const cache = new Map<string, Readonly<Record<Key, ChangePolicy>>>();

function policiesOf(folder: string): Readonly<Record<Key, ChangePolicy>> {
  const known = cache.get(folder);
  if (known !== undefined) return known;
  const file = JSON.parse(readFileSync(join(folder, "change-policy.config.json"), "utf8")) as Record<Key, PathSets>;
  const policies = { upstream: policyOf(file.upstream), seedSplit: policyOf(file.seedSplit) };
  cache.set(folder, policies);
  return policies;
}

function flagsOf(result: Classification): Record<string, unknown> {
  const lanes = Object.entries(result.lanes).map(([lane, on]) => [`run_${lane}`, on]);
  return { classification: result.classification, ...Object.fromEntries(lanes) };
}

const FULL = {
  classification: "code",
  run_rust: true,
  run_blas: true,
  run_extensions: true,
  run_docs: true,
  run_ci_config: true,
  run_gpu: true,
  run_macos: true,
};

/** The answers a case accepts under a key; the corpus says that two kinds of case have more than one. */
function accepted(testCase: CorpusCase, key: Key): unknown[] {
  const tags = (testCase["tags"] ?? []) as string[];
  const upstream = testCase["expected"];
  const wanted = key === "seedSplit" ? (testCase["expectedSeedSplit"] ?? upstream) : upstream;
  const either = key === "seedSplit" && tags.includes("ambiguous-pricing") ? [wanted, upstream] : [wanted];
  return tags.includes("hardening") ? [...either, FULL] : either;
}

export const adapter: CorpusAdapter = {
  corpus: "change-policy",
  run: (testCase, _corpus, folder): Outcome => {
    const policies = policiesOf(folder);
    const change = {
      event: testCase["event"] as string,
      files: pathsFromText(testCase["paths"] as string[]).map(plainFile),
      problem: null,
    };
    const actual = { upstream: {}, seedSplit: {} };
    let pass = true;
    for (const key of KEYS) {
      actual[key] = flagsOf(policies[key].classify(change));
      pass &&= accepted(testCase, key).some((answer) => isDeepStrictEqual(answer, actual[key]));
    }
    const expected = { upstream: accepted(testCase, "upstream")[0], seedSplit: accepted(testCase, "seedSplit")[0] };
    return { pass, expected, actual };
  },
};
