/**
 * Whether the day's runs were runs of the shipped files: by the local GitHub's own records of jobs and steps, a machine's
 * work is there step by step, and no run broke on its file.
 */
import type { LocalGitHub } from "../github/index.ts";
import { EXECUTE, PREPARE } from "./workflows.ts";

/** Steps without which a green GPU job would mean nothing. They are written in gpu-gate-execute.yml and nowhere else. */
const PAID_STEPS: readonly string[] = [
  "Refuse what was not admitted",
  "Check the machine",
  "Download the archives",
  "Reconstruct the archives",
  "Refuse any other commit",
  "Verify the runtime",
  "Run GPU tests",
  "Report the evidence",
];

/** The archives' five parts, their manifest, and the mark by which a later preparation finds them. */
const ARTIFACTS = 7;

/** What is not as it must be, one sentence each. */
export function judgeRuns(github: LocalGitHub, repository: string): readonly string[] {
  const problems: string[] = [];
  for (const run of github.books.runs) problems.push(...run.problems.map((text) => `${run.workflowPath}: ${text}`));
  problems.push(...github.books.problems.map((text) => `the local GitHub itself failed: ${text}`));
  const repo = github.repository(repository);
  for (const run of repo.runs(PREPARE)) {
    if (run.artifacts.length !== ARTIFACTS)
      problems.push(`${run.displayTitle} left ${run.artifacts.length} artifacts instead of ${ARTIFACTS}`);
  }
  const paid = repo.runs(EXECUTE).filter((run) => run.attempts.at(-1)?.conclusion === "success");
  if (paid.length === 0) problems.push("no run of the paid workflow succeeded");
  for (const run of paid) {
    const steps = run.attempts.at(-1)?.jobs[0]?.steps ?? [];
    const missing = PAID_STEPS.filter((name) => steps.find((step) => step.name === name)?.conclusion !== "success");
    if (missing.length > 0) problems.push(`${run.displayTitle} is green without ${missing.join(", ")}`);
  }
  return problems;
}
