import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import type { Corpus, CorpusAdapter } from "../oracle/adapter.ts";
import { adapter as gpuContract } from "../oracle/adapters/gpu-contract.ts";
import { adapter as ownershipTags } from "../oracle/adapters/ownership-tags.ts";
import { adapter as parseTimestamp } from "../oracle/adapters/parse-timestamp.ts";
import { adapter as pricing } from "../oracle/adapters/pricing.ts";
import { adapter as runnerPin } from "../oracle/adapters/runner-pin.ts";

const EXAMPLES = resolve(import.meta.dirname, "../../../shared/examples");
const adapters: readonly CorpusAdapter[] = [pricing, gpuContract, ownershipTags, runnerPin, parseTimestamp];

describe.each(adapters)("corpus $corpus (skipped where the example folder is not there)", (adapter) => {
  const file = resolve(EXAMPLES, `${adapter.corpus}.json`);
  const corpus: Corpus = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Corpus) : { cases: [] };

  test.skipIf(corpus.cases.length === 0).each(corpus.cases.map((one) => [one.id, one] as const))(
    "%s",
    async (_id, one) => {
      const outcome = await adapter.run(one, corpus, EXAMPLES);
      expect({ pass: outcome.pass, actual: outcome.actual }).toEqual({ pass: true, actual: outcome.actual });
    },
  );
});
