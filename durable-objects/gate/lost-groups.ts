/**
 * Merge groups that no webhook told of, and ends of groups that none told of, found by looking at the queue's own branches.
 *
 * A merge queue keeps one branch per group, `gh-readonly-queue/<base>/pr-<number>-<parent>` (github-facts section 8), and
 * removes it when the group ends. A branch of that name alone proves nothing: whoever may write can push one. So a group that
 * was not announced counts only when GitHub itself started a workflow for the event `merge_group` on exactly this branch and
 * commit, which a push cannot bring about. Where no workflow listens for merge groups, only a redelivery finds a lost one.
 */
import { QUEUE_BRANCHES } from "../../shared/authorize/siblings.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { NamedRef } from "../../shared/github/repository.ts";
import type { Group } from "../../shared/lifecycle/model.ts";
import { groupAnswersOf, needsAnswer } from "../../shared/lifecycle/needs-answer.ts";
import type { NewRequest } from "../../shared/lifecycle/new-request.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Store } from "./store.ts";

/** Unknown branches asked about in one round; what is left over has its turn in the next. */
const LOOKED_AT = 20;

export interface GroupHands {
  readonly openIfUnknown: (what: NewRequest) => string | null;
  readonly stop: (requestId: string, word: Verdict) => boolean;
}

export type GroupPort = Pick<GitHubClient, "listRefs" | "listRuns" | "getRef">;

/**
 * `lastRound`: when the round before this one ended. `shadow`: whether the configuration has shadow mode on; left out: it was not
 * read. False: GitHub did not answer.
 */
export async function findGroups(
  store: Store,
  github: GroupPort,
  { lastRound, shadow }: { readonly lastRound: Millis; readonly shadow: boolean | undefined },
  hands: GroupHands,
): Promise<boolean> {
  const listed = await github.listRefs(`heads/${QUEUE_BRANCHES}`);
  if (!listed.ok) return false;
  let answered = true;
  const unknown = listed.value.flatMap((ref) => {
    const group = groupOf(ref);
    const known = groupAnswersOf(ref.sha, (head, kind) => store.requestsOfHead(head, kind), shadow);
    return group === null || !needsAnswer(known, { prNumber: null }) ? [] : [{ ref, group }];
  });
  // Where there are more than one round looks at, rounds begin at different ones: branches that nobody announces stay.
  const begin = unknown.length > LOOKED_AT ? Math.floor(lastRound / 1_000) % unknown.length : 0;
  for (const { ref, group } of [...unknown.slice(begin), ...unknown.slice(0, begin)].slice(0, LOOKED_AT)) {
    // One that was asked about before, in shadow for one, was announced then.
    const isKnown = store.requestsOfHead(ref.sha, "merge-group").some((one) => one.group?.headRef === ref.ref);
    const announced = isKnown || (await isGroup(github, ref));
    if (announced === null) answered = false;
    if (announced !== true) continue;
    const parts = { prNumber: null, generation: 1, row: 5, actor: null, approvedBy: null } as const;
    const opened = hands.openIfUnknown({ kind: "merge-group", headSha: ref.sha, group, ...parts });
    if (opened !== null) store.count("reconcile.opened");
  }
  const there = new Set(listed.value.map((one) => `${one.ref} ${one.sha}`));
  for (const request of store.openRequests()) {
    const { group } = request;
    // One that came after the last round may be newer than the list.
    if (group === undefined || request.openedAt >= lastRound || there.has(`${group.headRef} ${request.headSha}`))
      continue;
    const now = await github.getRef(group.headRef);
    if (!now.ok) answered = false;
    else if (now.value !== request.headSha) {
      const word = verdict("cancelled", "merge-group-destroyed", "The merge queue dissolved this group.");
      if (hands.stop(request.id, word)) store.count("reconcile.group-gone");
    }
  }
  return answered;
}

/** What the webhook would have said; null: the name is not a group's. The parent is the commit the group was put onto. */
export function groupOf({ ref }: NamedRef): Group | null {
  const parts = /^refs\/heads\/gh-readonly-queue\/(.+)\/pr-\d{1,9}-([0-9a-f]{40})$/.exec(ref);
  const [, base, parent] = parts ?? [];
  return base === undefined || parent === undefined
    ? null
    : { headRef: ref, baseSha: parent, baseRef: `refs/heads/${base}` };
}

/** Whether GitHub started a workflow because of this group; null: it did not say. */
async function isGroup(github: GroupPort, { ref, sha }: NamedRef): Promise<boolean | null> {
  const runs = await github.listRuns({ event: "merge_group", headSha: sha });
  if (!runs.ok) return null;
  const branch = ref.replace(/^refs\/heads\//, "");
  return runs.value.items.some(
    (run) => run.event === "merge_group" && run.headSha === sha && run.headBranch === branch,
  );
}
