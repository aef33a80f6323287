/** One repository as the scenario side sees it: its names, its commits, and look-ups that throw with a sentence. */

import type { Files } from "./git.ts";
import type { Hub } from "./hub.ts";
import type { Account, PullRequest, Repository } from "./model.ts";
import { fullName } from "./model.ts";
import { baseMoved, headRef, headSha, mergeRef, pushed } from "./pulls.ts";

export class RepositoryView {
  protected readonly hub: Hub;
  protected readonly repository: Repository;

  constructor(hub: Hub, repository: Repository) {
    this.hub = hub;
    this.repository = repository;
  }

  get id(): number {
    return this.repository.id;
  }

  get fullName(): string {
    return fullName(this.repository);
  }

  /** The SHA a branch points at; the default branch unless named. */
  sha(branch: string = this.repository.defaultBranch): string {
    return headSha(this.repository, branch);
  }

  filesAt(sha: string): Files {
    return this.repository.git.filesAt(sha);
  }

  /** The test merge of a pull request, or undefined before GitHub has made one. */
  mergeSha(number: number): string | undefined {
    return this.repository.refs.get(mergeRef(this.pull(number)));
  }
  protected afterPush(branch: string, before: string | null, sha: string, author: Account): void {
    const repository = this.repository;
    pushed(this.hub, repository, branch, before, sha, author);
    baseMoved(this.hub, repository, branch);
    this.hub.engine.trigger({
      repository,
      headRepository: repository,
      event: "push",
      headBranch: branch,
      headSha: sha,
      sha,
      ref: headRef(branch),
      actor: author,
      payload: { before: before ?? "0".repeat(40), after: sha },
    });
  }
  protected user(login: string): Account {
    return this.hub.world.ensureAccount(login);
  }

  protected pull(number: number): PullRequest {
    const pull = this.repository.pulls.find((one) => one.number === number);
    if (pull === undefined) throw new Error(`${this.fullName} has no pull request ${number}`);
    return pull;
  }

  protected openPull(number: number): PullRequest {
    const pull = this.pull(number);
    if (pull.state !== "open") throw new Error(`pull request ${number} is closed`);
    return pull;
  }
}
