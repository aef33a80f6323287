/**
 * Upstream's words for a pod of its own, brought into ours: the reap corpora share them. Upstream tags an owner word, the
 * repository's name, a run and a run attempt; ours are a deployment, ids and a run. The product's own check decides.
 */
import { readPodRecord } from "../../../shared/cost/record.ts";
import type { OwnerRef } from "../../../shared/lifecycle/reap.ts";
import type { SweepPod } from "../../../shared/lifecycle/sweep.ts";
import { ownedBy, tagNames, tagsFromEnv } from "../../../shared/runpod/tags.ts";
import { parseTimestamp } from "../../../shared/time.ts";

export const UPSTREAM_WORKFLOW = ".github/workflows/runpod-gpu-test.yml";
const OWNER_WORD = "runpod-gpu-test-v1";
const NAMES = tagNames();

export type RawPod = Readonly<Record<string, unknown>>;

/** The pod as the sweep knows it; `owner` is null when it is not one of `repository`'s. */
export function upstreamPod(pod: RawPod, repository: string): SweepPod {
  const owner = upstreamOwner(pod, repository);
  const startedAt = parseTimestamp(pod["lastStartedAt"]);
  return {
    id: String(pod["id"]),
    own: owner !== null,
    // REST v1 told no creation time; the last start is the only time there is.
    createdAt: startedAt,
    ownCreatedAt: null,
    owner,
    keepAsked: tag(pod, "KEEP_FAILED") === "true",
    cost: readPodRecord(pod),
    gpuTypeId: "",
  };
}

function upstreamOwner(pod: RawPod, repository: string): OwnerRef | null {
  const attempt = tag(pod, "ATTEMPT");
  const runId = tag(pod, "RUN_ID");
  // Two decimal values upstream, two decimal fields with us: the attempt travels in the field of the repository's id.
  const ours = {
    [NAMES.deployment]: `${tag(pod, "OWNER") ?? ""} ${tag(pod, "REPOSITORY") ?? ""}`,
    [NAMES.repositoryId]: attempt,
    [NAMES.requestId]: "upstream-has-none",
    [NAMES.attemptId]: "upstream-has-none",
    [NAMES.runId]: runId,
    [NAMES.keep]: tag(pod, "KEEP_FAILED"),
  };
  const name = typeof pod["name"] === "string" ? pod["name"] : "";
  const ownership = ownedBy({ id: String(pod["id"]), name, tags: tagsFromEnv(ours) }, `${OWNER_WORD} ${repository}`, {
    expectedName: (identity) => `tenferro-rs-gpu-ci-${identity.runId}`,
  });
  if (ownership.kind !== "own") return null;
  return { runId: runId ?? "", attempt: Number(attempt), workflowPath: UPSTREAM_WORKFLOW, repository };
}

/** A tag's text; undefined when it is missing or no text. */
function tag(pod: RawPod, name: string): string | undefined {
  const env = pod["env"];
  const value: unknown = typeof env === "object" && env !== null ? Reflect.get(env, `TENFERRO_CI_${name}`) : undefined;
  return typeof value === "string" ? value : undefined;
}
