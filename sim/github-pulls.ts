/** Pull requests of the virtual GitHub, and what people do to them. */
import type { User, File, Pull, Repository } from "./github-model.ts";
import { iso, pullJson } from "./github-json.ts";
import { startCi } from "./github-runs.ts";

/** Somebody opens a pull request; `sameAs`: another one whose head commit it shares. */
export function openPull(
  repository: Repository,
  author: User,
  files: File[],
  draft: boolean,
  fork: boolean,
  sameAs: Pull | null = null,
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
    baseRef: "main",
    labels: new Set(),
    files,
    changes: [],
    conflict: false,
  };
  repository.pulls.set(number, pull);
  if (sameAs === null) newHead(repository, pull, repository.around.rng.hex(40), null);
  else {
    // From another branch, or against another base. It asks for an answer of its own where the other's was about itself.
    pull.headSha = sameAs.headSha;
    repository.sharedHeads.add(sameAs.headSha);
    pull.changes.push(repository.now);
    repository.ask(pull.headSha);
    repository.around.trace.note(`${repository.name}#${number} has the head of #${sameAs.number}`);
  }
  repository.tell("pull_request", "opened", author, { pull_request: pullJson(repository, pull) });
  startCi(repository, pull.headSha, pull.headRef, author, "pull_request");
  return pull;
}

/** `sameTree`: a commit that changes nothing, or only its message. */
export function pushTo(
  repository: Repository,
  pull: Pull,
  by: User,
  sha: string,
  files: File[],
  sameTree = false,
): void {
  const before = pull.headSha;
  pull.files = files;
  newHead(repository, pull, sha, sameTree ? before : null);
  repository.around.trace.note(`${repository.name}#${pull.number} head is now ${sha.slice(0, 8)}`);
  repository.tell("pull_request", "synchronize", by, { pull_request: pullJson(repository, pull) });
  startCi(repository, pull.headSha, pull.headRef, by, "pull_request");
}

/** Somebody closes, reopens, drafts or retargets it. */
export function changePull(
  repository: Repository,
  pull: Pull,
  by: User,
  action: "closed" | "reopened" | "converted_to_draft" | "ready_for_review" | "edited",
): void {
  if (action === "closed") pull.state = "closed";
  if (action === "reopened") {
    pull.state = "open";
    repository.ask(pull.headSha);
  }
  if (action === "converted_to_draft") pull.draft = true;
  if (action === "ready_for_review") pull.draft = false;
  if (action === "edited") {
    pull.baseRef = pull.baseRef === "main" ? "next" : "main";
    // One commit against one base is one change.
    const twin = [...repository.pulls.values()].find(
      (one) => one !== pull && one.headSha === pull.headSha && one.baseRef === pull.baseRef,
    );
    if (twin !== undefined) pull.files = twin.files;
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

function newHead(repository: Repository, pull: Pull, sha: string, treeOf: string | null): void {
  pull.headSha = sha;
  pull.changes.push(repository.now);
  if (repository.heads.has(sha)) {
    repository.returns.set(sha, repository.now);
    return;
  }
  const mergeSha = repository.around.rng.hex(40);
  repository.heads.set(sha, { prNumber: pull.number, files: pull.files, mergeSha });
  const known = treeOf === null ? undefined : repository.heads.get(treeOf);
  // The base is the same for both in repository world, so the head's content is what the merge's content depends on.
  repository.setTree(sha, known === undefined ? repository.around.rng.hex(40) : repository.treeOf(treeOf ?? ""));
  repository.setTree(mergeSha, known === undefined ? repository.around.rng.hex(40) : repository.treeOf(known.mergeSha));
}
