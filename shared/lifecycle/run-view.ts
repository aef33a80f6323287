/** GitHub's answer about one workflow run, reduced to what the reaper decides from. */
import * as z from "zod";
import { parseTimestamp } from "../time.ts";
import type { RunView } from "./reap.ts";

/** `GET /repos/{owner}/{repo}/actions/runs/{run_id}`; unknown fields are let pass. */
const runSchema = z.object({
  id: z.union([z.number().int(), z.string()]),
  run_attempt: z.number().int(),
  status: z.string(),
  path: z.string(),
  repository: z.object({ id: z.union([z.number().int(), z.string()]).optional(), full_name: z.string() }),
  updated_at: z.unknown(),
});

/**
 * Reads an answer. 404 is `gone`; every other status, and a body that is not a run, is `unknown`.
 * `repositoryBy` says whether the repository is told by its id or by its name.
 */
export function runView(status: number, body: unknown, repositoryBy: "id" | "name" = "id"): RunView {
  if (status === 404) return { kind: "gone" };
  if (status !== 200) return { kind: "unknown", what: `GitHub answered ${status} for the run` };
  const parsed = runSchema.safeParse(body);
  if (!parsed.success) return { kind: "unknown", what: "GitHub's answer for the run could not be read" };
  const run = parsed.data;
  return {
    kind: "read",
    runId: String(run.id),
    attempt: run.run_attempt,
    status: run.status,
    // GitHub may append the ref that the workflow was read at.
    workflowPath: run.path.split("@")[0] ?? run.path,
    repository: repositoryBy === "id" ? String(run.repository.id ?? "") : run.repository.full_name,
    updatedAt: parseTimestamp(run.updated_at),
  };
}
