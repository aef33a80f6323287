/** The virtual GitHub's merge queue: groups that are put together, merged and dissolved. */
import type { Pull, MergeGroup, Repository } from "./github-model.ts";
import { changePull } from "./github-pulls.ts";
import { startCi } from "./github-runs.ts";

/** The merge queue takes pull requests in. The tree of a group of one, on the base it was tested on, is the tested one. */
export function queuePulls(repository: Repository, pulls: readonly Pull[]): MergeGroup {
  const last = pulls.at(-1);
  if (last === undefined) throw new Error("a merge group has a pull request");
  const { rng } = repository.around;
  const commits: MergeGroup["commits"][number][] = [];
  let tip = repository.mainSha;
  for (const pull of pulls) {
    const merge = rng.hex(40);
    commits.push({ sha: pull.headSha, parents: [repository.mainSha] }, { sha: merge, parents: [tip, pull.headSha] });
    tip = merge;
  }
  const group: MergeGroup = {
    headSha: tip,
    headRef: `refs/heads/gh-readonly-queue/main/pr-${last.number}-${repository.mainSha}`,
    baseSha: repository.mainSha,
    pulls,
    commits,
    files: pulls.flatMap((pull) => pull.files),
    madeAt: repository.now,
    over: null,
  };
  const only = pulls.length === 1 ? repository.changes.get(last.headSha)?.get(last.baseRef) : undefined;
  if (only !== undefined) repository.setTree(tip, repository.treeOf(only.mergeSha));
  repository.groups.set(tip, group);
  repository.around.trace.note(
    `${repository.name}: merge group ${tip.slice(0, 8)} of ${pulls.map((pull) => pull.number).join(", ")}`,
  );
  tellGroup(repository, group, "checks_requested");
  const ref = group.headRef.replace("refs/heads/", "");
  startCi(repository, tip, ref, last.author, "merge_group");
  return group;
}

/** The queue merges its pull requests, or dissolves it. */
export function endGroup(repository: Repository, group: MergeGroup, how: "merged" | "destroyed"): void {
  if (group.over !== null) return;
  group.over = how;
  repository.around.trace.note(`${repository.name}: merge group ${group.headSha.slice(0, 8)} is ${how}`);
  if (how === "merged") {
    repository.commitToMain({ sha: group.headSha });
    for (const pull of group.pulls) if (pull.state === "open") changePull(repository, pull, pull.author, "closed");
  }
  tellGroup(repository, group, "destroyed");
}

function tellGroup(repository: Repository, group: MergeGroup, action: "checks_requested" | "destroyed"): void {
  const { headSha: head_sha, headRef: head_ref, baseSha: base_sha } = group;
  const by = repository.users[0];
  if (by === undefined) return;
  repository.tell("merge_group", action, by, {
    merge_group: { head_sha, head_ref, base_sha, base_ref: "refs/heads/main", head_commit: {} },
  });
}
