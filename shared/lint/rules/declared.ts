/** What the configuration names is in the repository, and so is the configuration. */
import { CONFIG_PATH, type RepositoryConfig } from "../../config/schema.ts";
import { isWritten, placeIn, together, type DeclaredConfig } from "../declared.ts";
import { fileOf, runsFor } from "../published.ts";
import type { Report, Rule } from "../rule.ts";
import { hasFile, type Tree } from "../tree.ts";
import { allJobs, type Repository, type WorkflowFile } from "../workflow.ts";
import { entry, get } from "../yaml.ts";
import { isProbe } from "./lanes.ts";

export const configurationMissing: Rule = {
  id: "configuration-missing",
  title: "A repository with the gate's workflows has the gate's configuration",
  explanation:
    "Nothing is guessed without `.github/gpu-gate.yml`: the gate refuses every request with `configuration-missing`, and a probe finds no lane. The linter then " +
    "does not know lanes, required checks and names, and judges the files by themselves.",
  example:
    "The workflow files were copied and the configuration was not. Every pull request's check asked for a maintainer, and the linter had found nothing.",
  fix: "Write `.github/gpu-gate.yml` (start from `workflows/gpu-gate.yml.example`), or name it with `--config` where it lies elsewhere.",
  check: (repository, { declared }, found) => {
    if (declared.kind !== "missing" || repository.tree === null) return;
    const uses =
      repository.files.some((file) => isDispatched(file)) ||
      allJobs(repository).some((job) => isProbe(job)) ||
      [...repository.tree.files].some((path) => path.startsWith(".github/gpu-gate/"));
    if (!uses) return;
    const place = { file: declared.path, line: 1, column: 1 };
    found(place, `There is no ${CONFIG_PATH}; lanes, required checks and names are unknown, and the gate refuses all.`);
  },
};

/** A workflow that the gate starts: it is told which revision to test. */
function isDispatched(file: WorkflowFile): boolean {
  return entry(get(file.triggers.get("workflow_dispatch")?.value, "inputs"), "tested_sha") !== undefined;
}

type Role = keyof RepositoryConfig["workflows"];

/** Without these no request gets to the GPU; the others are for those who use them, so they count where they are written. */
const ALWAYS: readonly Role[] = ["trigger", "prepare", "execute"];
const DISPATCHED: readonly Role[] = ["prepare", "execute", "recovery", "validation"];

export const declaredWorkflowMissing: Rule = {
  id: "declared-workflow-missing",
  title: "A workflow that the configuration names is there and can be started",
  explanation:
    "The gate dispatches `workflows.prepare` and `workflows.execute`, and goes on when `workflows.trigger` has started for the commit. Where one of them is missing, or has no " +
    "trigger that starts it so, every request ends without a test: after fifteen minutes of waiting, or after everything was prepared. The defaults of these keys count as written.",
  example:
    "The execute workflow was renamed without the configuration. Each pull request was prepared for half an hour, took the lock, and failed at the dispatch.",
  fix: "Correct the path in `workflows:`, add the file, or give it the trigger: `workflow_dispatch` for what the gate dispatches, `pull_request` for `trigger` (or `trigger: none`).",
  check: (repository, { declared }, found) => {
    const { tree } = repository;
    if (declared.kind !== "read" || tree === null) return;
    together(found, (say) => {
      for (const [name, path] of Object.entries(declared.config.workflows)) {
        const role = name as Role;
        if (path === "none" || !(ALWAYS.includes(role) || isWritten(declared, ["workflows", role]))) continue;
        judge(repository, tree, declared, role, path, say);
      }
      const fallback = declared.config.fork_fallback.workflow;
      if (fallback !== null && !hasFile(tree, fallback))
        say(placeIn(declared, ["fork_fallback", "workflow"]), `fork_fallback.workflow: there is no ${fallback}.`);
    });
  },
};

function judge(
  repository: Repository,
  tree: Tree,
  declared: DeclaredConfig,
  role: Role,
  path: string,
  found: Report,
): void {
  const key = ["workflows", role];
  const place = placeIn(declared, key);
  const file = fileOf(repository, path);
  if (!hasFile(tree, path)) {
    const said = isWritten(declared, key) ? "" : ", the default";
    found(place, `${key.join(".")}: there is no ${path}${said}.`);
  } else if (file === undefined) return;
  else if (DISPATCHED.includes(role) && !file.triggers.has("workflow_dispatch"))
    found(place, `${key.join(".")}: ${path} has no 'workflow_dispatch', so the gate cannot start it.`);
  else if (role === "trigger" && !runsFor(file, "pull_request"))
    found(place, `${key.join(".")}: no pull request starts ${path}, so no request goes on.`);
}
