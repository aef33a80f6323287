/**
 * I4: success only for what deserves it: a change the classifier may wave through, or a GPU job of this head that really
 * ran its tests on a machine bought for it, which is gone by now.
 */
import type { CheckRun, Repository, Run } from "../github-model.ts";
import { EXECUTE } from "../github-model.ts";
import { podsOf, type Checker, type WorldView } from "../view.ts";

const SHORTEST_JOB_MS = 20_000;

export function i4(): Checker {
  return {
    name: "I4",
    wrote(world, repository, check) {
      if (check.status !== "completed") return null;
      if (check.conclusion === "neutral" || check.conclusion === "skipped")
        return `a check concluded as ${check.conclusion}`;
      if (check.conclusion !== "success" || check.name.endsWith("(shadow)")) return null;
      const head = repository.heads.get(check.headSha);
      if (head === undefined) return `success on ${check.headSha}, which no pull request ever had`;
      if (head.files.every((file) => file.filename.startsWith("docs/"))) return null;
      return evidenceProblem(world, repository, check, head.mergeSha);
    },
  };
}

function evidenceProblem(world: WorldView, repository: Repository, check: CheckRun, mergeSha: string): string | null {
  const request = check.externalId?.split(":")[0] ?? "";
  const problems: string[] = [];
  for (const run of repository.runs.values()) {
    if (run.path !== EXECUTE || run.inputs["request"] !== request) continue;
    const problem = runProblem(world, repository, run, [mergeSha, check.headSha]);
    if (problem === null) return null;
    problems.push(`run ${run.id}: ${problem}`);
  }
  return `success for ${request} without evidence: ${problems.join("; ") || "no run"}`;
}

function runProblem(world: WorldView, repository: Repository, run: Run, revisions: readonly string[]): string | null {
  if (!revisions.includes(run.inputs["tested_sha"] ?? "")) return "another revision was tested";
  const job = run.jobs[0]?.[0];
  if (job?.status !== "completed" || job.conclusion !== "success") return "its job did not succeed";
  if (job.steps[2]?.conclusion !== "success") return "its tests did not run";
  if (job.annotations.length !== 1) return "it left no evidence";
  if ((job.completedAt ?? 0) - (job.startedAt ?? 0) < SHORTEST_JOB_MS - 1_000) return "it was too short";
  const pods = podsOf(world, repository.id).filter((pod) => pod.env["GPU_GATE_RUN_ID"] === run.id);
  if (pods.length === 0) return "no pod was bought for it";
  if (pods.some((pod) => pod.releasedAt === null)) return "its pod is not gone";
  const wrong = pods.find((pod) => pod.realGpu !== pod.askedGpu);
  return wrong === undefined ? null : `its machine has a ${wrong.realGpu} instead of a ${wrong.askedGpu}`;
}
