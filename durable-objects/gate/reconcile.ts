/**
 * Reconciling with GitHub: what webhooks did not tell. Open pull requests and merge groups without a request get one, and so
 * do pull requests whose answer is for another base than the one they target; open
 * requests look at their pull request now, and end where their group is gone. Takes no input, can run at any time, and does nothing twice.
 */
import { readRules } from "../../shared/authorize/authorize.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import type { PullSummary } from "../../shared/github/pulls.ts";
import type { NewRequest } from "../../shared/lifecycle/new-request.ts";
import { isDraftsWait } from "../../shared/lifecycle/needs-answer.ts";
import { verdict, type Verdict } from "../../shared/lifecycle/verdict.ts";
import type { About } from "./accepting.ts";
import type { Aggregates } from "./aggregates.ts";
import { lookAtLanes } from "./lanes.ts";
import { findGroups } from "./lost-groups.ts";
import type { GatePorts } from "./ports.ts";
import { COMPARED_AT } from "./publish.ts";
import type { Store, StoredTask } from "./store.ts";

export interface ReconcileHands {
  readonly openIfUnknown: (what: NewRequest, about?: About) => string | null;
  readonly hint: (requestId: string) => void;
  readonly stop: (requestId: string, word: Verdict) => boolean;
  readonly aggregates: Aggregates;
}

const GAVE_WAY = verdict(
  "superseded",
  "draft-gave-way",
  "This pull request is a draft, and another one that is none has this commit: the check is that one's until the draft is ready.",
);

/** What the comparison knows of who opened a pull request: nothing. */
const PARTS = { generation: 1, row: 1, actor: null, approvedBy: null } as const;

/** False: GitHub did not answer. */
export async function reconcile(
  task: StoredTask,
  ports: GatePorts,
  store: Store,
  github: GitHubClient,
  hands: ReconcileHands,
): Promise<boolean> {
  const lastRound = Number(store.meta("reconciled_at") ?? "0");
  // What was said in shadow is no answer any more where the configuration has left it. Read ahead of the list, which is acted on
  // at once: a pull request that is closed meanwhile would be asked about again.
  const rulesRead = await reconcileRules(ports, store, github);
  const since = ports.clock.now();
  const listed = await github.listOpenPulls();
  const now = ports.clock.now();
  store.removeTask(task.id);
  store.setMeta("reconciled_at", String(now));
  if (!listed.ok) {
    // Not an error of anybody's: the next round is the retry.
    store.count("reconcile.unreadable");
    if (listed.error.reason === "not-found") store.doubtName();
    return false;
  }
  const config = store.config(store.meta("last_config") ?? "");
  const pulls = new Map(listed.value.items.map((pull) => [pull.number, pull]));
  const here = store.meta("repository_id");
  const isFork = ({ headRepositoryId }: PullSummary): boolean => here !== null && headRepositoryId !== here;
  const isWaiting = ({ draft }: PullSummary): boolean => draft && config?.drafts !== "run";
  /** A draft at whose commit another one is that could be merged: nothing is asked for its sake, and nobody waits for it. */
  const givesWay = (pull: PullSummary): boolean =>
    isWaiting(pull) && listed.value.items.some((other) => other.headSha === pull.headSha && !isWaiting(other));
  for (const request of store.openRequests()) {
    const pull = pulls.get(request.prNumber ?? 0);
    if (pull?.headSha === request.headSha && isDraftsWait(request) && givesWay(pull)) hands.stop(request.id, GAVE_WAY);
  }
  // Those from here first: a fork's pull request is refused, and must not be the word over what they are owed.
  for (const pull of listed.value.items.toSorted((a, b) => Number(isFork(a)) - Number(isFork(b)))) {
    const { number, headSha, baseRef } = pull;
    if (givesWay(pull)) continue;
    const what = { kind: "pull-request", prNumber: number, headSha, baseRef, ...PARTS } as const;
    const fork = here === null ? {} : { fork: isFork(pull) };
    const missed: Stand[] = [];
    const hasLeft = (prNumber: number, base?: string): boolean => {
      const at = { prNumber, headSha, baseRef: base };
      if (!isAt(pulls.get(prNumber), at)) missed.push(at);
      return false;
    };
    const others = listed.value.items
      .filter((other) => other.number !== number && other.headSha === headSha && !isFork(other) && !isWaiting(other))
      .map((other) => ({ prNumber: other.number, baseRef: other.baseRef }));
    const about = { ...fork, rulesRead, others };
    let opened = hands.openIfUnknown(what, { ...about, hasLeft });
    // A list may lag, be cut short, or lose one that slipped to another page: what it lacks is read before it is believed gone.
    const gone: Stand[] = [];
    for (const stand of opened === null ? missed : []) if (await isElsewhere(stand, github)) gone.push(stand);
    if (gone.length > 0) {
      const isGone = (other: number, base?: string) =>
        gone.some(({ prNumber, baseRef: its }) => prNumber === other && its === base);
      opened = hands.openIfUnknown(what, { ...about, hasLeft: isGone });
    }
    if (opened !== null) store.count("reconcile.opened");
  }
  store.setMeta(COMPARED_AT, String(since));
  for (const request of store.openRequests()) {
    if (request.prNumber === null) continue;
    const pull = pulls.get(request.prNumber);
    const { headSha, admission } = request;
    const same = pull?.headSha === headSha && (admission === null || pull.baseRef === admission.baseRef);
    if (!same) hands.hint(request.id);
  }
  if (!(await findGroups(store, github, { lastRound, shadow: config?.shadow }, hands)))
    store.count("reconcile.groups-unreadable");
  ports.sql.transaction(() => hands.aggregates.compare(listed.value.items, ports.clock.now()));
  const switches = hands.aggregates.config();
  if (switches !== null) await lookAtLanes(switches, ports, store, github);
  store.count("reconcile.done");
  return true;
}

/** Where another pull request would have to stand for its word to hold here; the base left out: whichever. */
interface Stand {
  readonly prNumber: number;
  readonly headSha: string;
  readonly baseRef: string | undefined;
}

function isAt(pull: Pick<PullSummary, "state" | "headSha" | "baseRef"> | undefined, stand: Stand): boolean {
  if (pull?.state !== "open" || pull.headSha !== stand.headSha) return false;
  return stand.baseRef === undefined || pull.baseRef === stand.baseRef;
}

/** Whether a pull request is known to stand there no more. */
async function isElsewhere(stand: Stand, github: GitHubClient): Promise<boolean> {
  const read = await github.getPull(stand.prNumber);
  return read.ok ? !isAt(read.value, stand) : read.error.reason === "not-found";
}

/**
 * A configuration that changed on the default branch is known here within one round, also when no request reads it. True: it was
 * read, and can be.
 */
async function reconcileRules(ports: GatePorts, store: Store, github: GitHubClient): Promise<boolean> {
  const known = store.repository();
  if (known === null || store.meta("last_config") === null) return false;
  const rules = await readRules(github, { repositoryId: known.repository.id });
  if ("outcome" in rules) return false;
  const { configHash } = rules.terms;
  ports.sql.transaction(() => {
    store.rememberConfig(configHash, rules.config);
    if (store.meta("last_config") !== configHash) store.setMeta("last_config", configHash);
  });
  return true;
}
