/** Checks at the virtual GitHub that are neither ours nor a job's. */
import { FOREIGN_APP_ID, type CheckRun, type Repository } from "./github-model.ts";
import { checkJson } from "./github-json.ts";

/** Another App's check on a commit, made at one stroke. */
export function foreignCheck(
  repository: Repository,
  headSha: string,
  name: string,
  conclusion: "success" | "failure",
): void {
  const by = repository.users[0];
  const check: CheckRun = {
    id: repository.nextId(),
    appId: FOREIGN_APP_ID,
    name,
    headSha,
    externalId: null,
    status: "completed",
    conclusion,
    startedAt: repository.now,
    completedAt: repository.now,
    title: name,
    summary: "By somebody else.",
    text: "",
  };
  repository.checks.set(check.id, check);
  repository.around.trace.note(`another App's check '${name}' on ${headSha.slice(0, 8)}: ${conclusion}`);
  if (by !== undefined) repository.tell("check_run", "completed", by, { check_run: checkJson(check) });
}
