/** Pull requests of the virtual GitHub, and what people do to them. */
import { createHash } from "node:crypto";
import type { Change, User, File, Pull, Repository } from "./github-model.ts";
import { iso, pullJson } from "./github-json.ts";
import { startCi } from "./github-runs.ts";

/** Branches that a pull request may target. The same commit is another change against each. */
export const BASES = ["main", "next", "stable"] as const;

/** Somebody opens a pull request; `sameAs`: another one whose head commit it shares. */
export function openPull(
  repository: Repository,
  author: User,
  files: readonly File[],
  draft: boolean,
  fork: boolean,
  sameAs: Pull | null = null,
  baseRef = "main",
): Pull {
  const number = repository.pulls.size + 1;
  const pull: Pull = {
    number,
    headRef: `topic-${number}`,
    headRepositoryId: fork ? "999" : repository.id,
    author,
    state: "open",
    draft,
    headSha: "",
    baseRef,
    labels: new Set(),
    files,
    changes: [],
    arrivedAt: repository.now,
    arrivalHeard: false,
    actors: new Set(),
    conflict: false,
  };
  repository.pulls.set(number, pull);
  if (sameAs === null) newHead(repository, pull, repository.around.rng.hex(40), null);
  else {
    // From another branch, or against another base. It asks for an answer of its own where the other's was about itself.
    pull.headSha = sameAs.headSha;
    repository.sharedHeads.add(sameAs.headSha);
    pull.changes.push(repository.now);
    noteChange(repository, pull);
    repository.ask(pull.headSha);
    repository.askOthers(pull.headSha);
    repository.around.trace.note(
      `${repository.name}#${number} of ${author.login}${fork ? ", from a fork," : ""} has the head of #${sameAs.number} for ${baseRef}`,
    );
  }
  repository.tell("pull_request", "opened", author, { pull_request: pullJson(repository, pull) });
  startCi(repository, pull.headSha, pull.headRef, author, "pull_request", pull.headRepositoryId);
  return pull;
}

/** `sameTree`: a commit that changes nothing, or only its message. */
export function pushTo(
  repository: Repository,
  pull: Pull,
  by: User,
  sha: string,
  files: readonly File[],
  sameTree = false,
): void {
  const before = pull.headSha;
  pull.files = files;
  repository.askOthers(before);
  newHead(repository, pull, sha, sameTree ? before : null);
  repository.around.trace.note(`${repository.name}#${pull.number} head is now ${sha.slice(0, 8)}`);
  repository.tell("pull_request", "synchronize", by, { pull_request: pullJson(repository, pull) });
  startCi(repository, pull.headSha, pull.headRef, by, "pull_request", pull.headRepositoryId);
}

/** Somebody closes, reopens, drafts or retargets it; `files`: its change against the new base, where nothing has shown it yet. */
export function changePull(
  repository: Repository,
  pull: Pull,
  by: User,
  action: "closed" | "reopened" | "converted_to_draft" | "ready_for_review" | "edited",
  to: { readonly baseRef: string; readonly files: readonly File[] } = {
    baseRef: pull.baseRef === "main" ? "next" : "main",
    files: pull.files,
  },
): void {
  if (action === "closed") pull.state = "closed";
  if (action === "reopened") {
    pull.state = "open";
    repository.ask(pull.headSha);
    nobodyTold(repository, pull);
  }
  repository.askOthers(pull.headSha);
  if (action === "converted_to_draft") pull.draft = true;
  if (action === "ready_for_review") pull.draft = false;
  if (action === "edited") {
    pull.baseRef = to.baseRef;
    nobodyTold(repository, pull);
    pull.files = to.files;
    noteChange(repository, pull);
    // Each of its heads is another change now, and so may be answered once more; another pull request's at that head as well.
    for (const [sha, head] of repository.heads) {
      if (head.prNumber === pull.number || sha === pull.headSha) repository.ask(sha);
    }
  }
  pull.changes.push(repository.now);
  repository.around.trace.note(`${repository.name}#${pull.number} ${action}`);
  repository.tell("pull_request", action, by, { pull_request: pullJson(repository, pull) });
}

/** Somebody puts a label on it, which asks for a run. */
export function labelPull(repository: Repository, pull: Pull, by: User, label: string): void {
  pull.labels.add(label);
  repository.ask(pull.headSha);
  repository.tell("pull_request", "labeled", by, { pull_request: pullJson(repository, pull), label: { name: label } });
}

/** Somebody comments on it, which asks for a run. */
export function commentOn(repository: Repository, pull: Pull, by: User, body: string): void {
  // A comment names no commit: the gate takes it for the newest of this pull request that waits for one, which is another
  // than the present one when the head has come back (seed 12036). Each of its heads may have one more request.
  const heads = [...repository.heads].filter(([, head]) => head.prNumber === pull.number).map(([sha]) => sha);
  for (const sha of new Set([pull.headSha, ...heads])) repository.ask(sha);
  repository.tell("issue_comment", "created", by, {
    issue: { number: pull.number, pull_request: {} },
    comment: {
      id: Number(repository.nextId()),
      body,
      created_at: iso(repository.now),
      user: { id: Number(by.id), login: by.login },
    },
  });
}

/** Who brought it to its head, or opened it, is not who reopened it or gave it another base: of that nobody is to be told. */
function nobodyTold(repository: Repository, pull: Pull): void {
  pull.arrivedAt = repository.now;
  pull.arrivalHeard = false;
}

/** One commit against one base is one change, whoever opens it, with one test merge; `fresh`: the merge of a new head, and its tree. */
function noteChange(
  repository: Repository,
  pull: Pull,
  fresh?: { readonly mergeSha: string; readonly tree: string },
): void {
  const { headSha, baseRef } = pull;
  const known: Map<string, Change> = repository.changes.get(headSha) ?? new Map<string, Change>();
  repository.changes.set(headSha, known);
  const visitors = repository.visitors.get(headSha) ?? new Set<number>();
  repository.visitors.set(headSha, visitors.add(pull.number));
  let change = known.get(baseRef);
  if (change === undefined) {
    change = { files: pull.files, mergeSha: fresh?.mergeSha ?? hash(`merge of ${headSha} and ${baseRef}`) };
    known.set(baseRef, change);
    repository.mergeHeads.set(change.mergeSha, headSha);
    // No branch moves here for a test merge, so its content is the head's and the base's name.
    repository.setTree(change.mergeSha, fresh?.tree ?? hash(`tree of ${repository.treeOf(headSha)} and ${baseRef}`));
  }
  pull.files = change.files;
}

const hash = (text: string): string => createHash("sha1").update(text).digest("hex");

function newHead(repository: Repository, pull: Pull, sha: string, treeOf: string | null): void {
  pull.headSha = sha;
  nobodyTold(repository, pull);
  pull.changes.push(repository.now);
  if (repository.heads.has(sha)) {
    repository.returns.set(sha, repository.now);
    noteChange(repository, pull);
    return;
  }
  const { rng } = repository.around;
  const mergeSha = rng.hex(40);
  const before = treeOf === null ? undefined : repository.changes.get(treeOf);
  repository.setTree(sha, treeOf === null || before === undefined ? rng.hex(40) : repository.treeOf(treeOf));
  const merged = before?.get(pull.baseRef)?.mergeSha;
  const tree = merged === undefined ? rng.hex(40) : repository.treeOf(merged);
  noteChange(repository, pull, { mergeSha, tree });
  repository.heads.set(sha, { prNumber: pull.number, files: pull.files, mergeSha });
}
