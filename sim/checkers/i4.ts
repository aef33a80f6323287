/**
 * I4: success only for what deserves it: a change the classifier may wave through, or a GPU job of this commit that really
 * ran its tests on a machine bought for it, which is gone by now; or, said to be reused, such a job of another request on
 * the identical tree under the identical rules. Merge groups and validations are held to the same.
 */
import type { Millis } from "../../shared/ports.ts";
import type { CheckRun, File, Pull, Repository, Run } from "../github-model.ts";
import { EXECUTE } from "../github-model.ts";
import { podsOf, type Checker, type WorldView } from "../view.ts";

const SHORTEST_JOB_MS = 20_000;
const AGGREGATE = "Required checks";

export function i4(): Checker {
  return {
    name: "I4",
    wrote(world, repository, check) {
      if (check.status !== "completed") return null;
      if (check.conclusion === "neutral" || check.conclusion === "skipped")
        return `a check concluded as ${check.conclusion}`;
      if (check.conclusion !== "success" || check.name.endsWith("(shadow)")) return null;
      return check.name === AGGREGATE ? null : successProblem(world, repository, check);
    },
  };
}

/** What a check on this commit may speak of: its change, and the revisions whose test counts for it. */
function subjectOf(
  repository: Repository,
  check: CheckRun,
  baseRef: string | undefined,
): { readonly files: readonly File[]; readonly revisions: readonly string[] } | null {
  const head = repository.heads.get(check.headSha);
  if (head !== undefined) {
    const changes = repository.changes.get(check.headSha);
    const merges = [...(changes?.values() ?? [])].map(({ mergeSha }) => mergeSha);
    // Another pull request at the commit is asked about next; that each has what its own base needs is seen when all is quiet.
    return { files: changes?.get(baseRef ?? "")?.files ?? head.files, revisions: [...merges, check.headSha] };
  }
  const group = repository.groups.get(check.headSha);
  if (group !== undefined) return { files: group.files, revisions: [check.headSha] };
  const onMain = repository.mainHistory.some((commit) => commit.sha === check.headSha);
  return onMain ? { files: [], revisions: [check.headSha] } : null;
}

function successProblem(world: WorldView, repository: Repository, check: CheckRun): string | null {
  const request = check.externalId?.split(":")[0] ?? "";
  const record = world.hosts.find((host) => host.repository === repository)?.gate.store.request?.(request) ?? null;
  const subject = subjectOf(repository, check, record?.admission?.baseRef);
  if (subject === null) return `success on ${check.headSha}, which no pull request ever had`;
  const { files } = subject;
  const kind = record?.kind ?? "pull-request";
  // What it says, it says of every open pull request at this commit that was there before it; each may have another base.
  // A draft is looked at again when it is ready: it is what it was then that counts.
  const known = Math.max(record?.openedAt ?? Infinity, record?.admission?.admittedAt ?? 0);
  const there = [...repository.pulls.values()].filter(
    (pull) => pull.headSha === check.headSha && pull.state === "open" && (pull.changes.at(-1) ?? 0) < known,
  );
  const aboutPulls = kind === "pull-request" || kind === "recovery";
  const waved = record?.state.kind === "concluded" && record.state.verdict.kind === "not-required";
  // Beside a change without need of a GPU, what needs one may have been tested for its own base before.
  // A fork's never is: where the commit was tested at all, no more is said of that one.
  const bases = [...(repository.changes.get(check.headSha)?.keys() ?? [])];
  const tested = new Set(waved ? bases.filter((base) => isTested(world, repository, check.headSha, base)) : []);
  const isCovered = (pull: Pull): boolean =>
    tested.has(pull.baseRef) || (tested.size > 0 && pull.headRepositoryId !== repository.id);
  const untested = there.filter((pull) => !isCovered(pull));
  const shared = aboutPulls && there.length > 0 ? untested.flatMap((pull) => pull.files) : files;
  const none = aboutPulls && there.length > 0 && untested.length === 0;
  if ((none || isLight(shared)) && (!waved || isLight(files)) && kind !== "validation") return null;
  // A validation's check may stand on an older commit that the tested one contains.
  const revisions =
    kind === "validation" && record?.revision !== null && record !== null
      ? contained(repository, check.headSha, record.revision)
      : subject.revisions;
  if (record?.state.kind === "concluded" && record.state.verdict.kind === "reused") {
    // An answer that is given back stays what it was, under the rules of its day, like any check that nobody asks about again.
    const askedAt = record.state.at === record.openedAt ? -Infinity : record.openedAt - world.clocks.widest;
    return reuseProblem(world, repository, check, revisions, askedAt);
  }
  return evidenceProblem(world, repository, request, revisions);
}

/** Documents alone. */
export function isLight(files: readonly File[]): boolean {
  return files.length > 0 && files.every((file) => /^(?:docs|ci)\//.test(file.filename));
}

/** A GPU job of the commit, or of its merge with the base, really ran its tests. */
export function isTested(world: WorldView, repository: Repository, headSha: string, baseRef: string): boolean {
  const change = repository.changes.get(headSha)?.get(baseRef);
  if (change === undefined) return false;
  // The head alone is the same against every base; a merge, and what has its tree, is of one.
  const trees = new Set([change.mergeSha, headSha].map((sha) => repository.treeOf(sha)));
  return [...repository.runs.values()].some((run) => {
    const tested = run.inputs["tested_sha"] ?? "";
    if (run.path !== EXECUTE || !trees.has(repository.treeOf(tested))) return false;
    return runProblem(world, repository, run, [tested]) === null;
  });
}

/** The validated revision counts for itself, for what it contains on the default branch, and for an identical tree. */
function contained(repository: Repository, target: string, revision: string): readonly string[] {
  const history = repository.mainHistory.map((commit) => commit.sha);
  const inside = history.includes(target) && history.indexOf(target) <= history.indexOf(revision);
  return target === revision || inside || repository.treeOf(target) === repository.treeOf(revision) ? [revision] : [];
}

function reuseProblem(
  world: WorldView,
  repository: Repository,
  check: CheckRun,
  revisions: readonly string[],
  askedAt: Millis,
): string | null {
  const trees = new Set(revisions.map((sha) => repository.treeOf(sha)));
  const rulesOf = (sha: string): string | undefined => repository.mainHistory.find((one) => one.sha === sha)?.rules;
  // Those that held when it was asked about, or came since: it reads them before it looks for an earlier success.
  const present = repository.mainHistory
    .filter((_one, index, all) => (all[index + 1]?.at ?? Infinity) >= askedAt)
    .map((one) => one.rules);
  const found = [...repository.runs.values()].some((run) => {
    if (run.path !== EXECUTE || !trees.has(repository.treeOf(run.inputs["tested_sha"] ?? ""))) return false;
    const rules = rulesOf(run.headSha);
    if (rules === undefined || !present.includes(rules)) return false;
    return runProblem(world, repository, run, [run.inputs["tested_sha"] ?? ""]) === null;
  });
  return found ? null : `${check.headSha.slice(0, 8)} reuses a success that its tree never had under these rules`;
}

function evidenceProblem(
  world: WorldView,
  repository: Repository,
  request: string,
  revisions: readonly string[],
): string | null {
  const problems: string[] = [];
  for (const run of repository.runs.values()) {
    if (run.path !== EXECUTE || run.inputs["request"] !== request) continue;
    const problem = runProblem(world, repository, run, revisions);
    if (problem === null) return null;
    problems.push(`run ${run.id}: ${problem}`);
  }
  return `success for ${request} without evidence: ${problems.join("; ") || "no run"}`;
}

export function runProblem(
  world: WorldView,
  repository: Repository,
  run: Run,
  revisions: readonly string[],
): string | null {
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
