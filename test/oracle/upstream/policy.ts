/** Upstream's path sets, which lie beside the corpora, as a policy of ours: does a list of paths ask for the GPU? */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { configFrom } from "../../../shared/config/load.ts";
import { plainFile } from "../../../shared/policy/changes.ts";
import { classify } from "../../../shared/policy/classify.ts";

interface PathSets {
  docsFiles: string[];
  docsPrefixes: string[];
  docsExceptPrefixes: string[];
  ciFiles: string[];
  ciPrefixes: string[];
  gpuDeviceControlFiles: string[];
}

export function upstreamNeedsGpu(folder: string, paths: readonly string[]): boolean {
  const file = JSON.parse(readFileSync(join(folder, "change-policy.config.json"), "utf8")) as { upstream: PathSets };
  const sets = file.upstream;
  const config = configFrom({
    paths: {
      docs: { files: sets.docsFiles, prefixes: sets.docsPrefixes, except_prefixes: sets.docsExceptPrefixes },
      ci: { files: sets.ciFiles, prefixes: sets.ciPrefixes },
    },
    lanes: { gpu: { control: { files: sets.gpuDeviceControlFiles } } },
  });
  return classify(config, { event: "pull_request", files: paths.map(plainFile), problem: null }).gpu;
}
