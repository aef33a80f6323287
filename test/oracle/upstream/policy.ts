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

/** Upstream's path sets in the words of our configuration. */
export function upstreamPolicy(folder: string) {
  const file = JSON.parse(readFileSync(join(folder, "change-policy.config.json"), "utf8")) as { upstream: PathSets };
  const sets = file.upstream;
  return {
    paths: {
      docs: { files: sets.docsFiles, prefixes: sets.docsPrefixes, except_prefixes: sets.docsExceptPrefixes },
      ci: { files: sets.ciFiles, prefixes: sets.ciPrefixes },
    },
    lanes: { gpu: { control: { files: sets.gpuDeviceControlFiles } } },
  };
}

export function upstreamNeedsGpu(folder: string, paths: readonly string[]): boolean {
  const config = configFrom(upstreamPolicy(folder));
  return classify(config, { event: "pull_request", files: paths.map(plainFile), problem: null }).gpu;
}
