/**
 * Other pull requests with the same head commit. A check belongs to a commit, so "no GPU is needed" on one of them would
 * satisfy the branch rule of all: a change that is documentation against one base may be code against another. It is said
 * only where it holds for every open pull request at that commit.
 */
import type { RepositoryConfig } from "../config/schema.ts";
import type { GitHubClient } from "../github/client.ts";
import type { AuthorizeOutcome } from "../lifecycle/tasks.ts";
import { changedFiles, refused, trustedWorkflows, unknown, type AuthorizePort } from "./authorize.ts";

export type SiblingsPort = Pick<AuthorizePort, "getPull" | "listPullFiles" | "getFile"> &
  Pick<GitHubClient, "listPullsForCommit">;

type Admitted = AuthorizeOutcome & { readonly kind: "admitted" };

/** Takes an admission that needs no GPU; gives it back, or what the other pull requests make of it. */
export async function withSiblings(
  port: SiblingsPort,
  admitted: Admitted,
  about: {
    readonly repositoryId: string;
    readonly prNumber: number;
    readonly headSha: string;
    readonly config: RepositoryConfig;
  },
): Promise<AuthorizeOutcome> {
  const { admission, terms } = admitted;
  const listed = await port.listPullsForCommit(about.headSha);
  if (!listed.ok) {
    const { reason } = listed.error;
    // GitHub knows no pull request of this commit: then there is no other one either.
    return reason === "not-found" || reason === "unprocessable" ? admitted : unknown(listed.error);
  }
  for (const other of listed.value.items) {
    if (other.number === about.prNumber || other.state !== "open" || other.headSha !== about.headSha) continue;
    // The same commit against the same base is the same change.
    if (other.baseRef === admission.baseRef) continue;
    const pull = await port.getPull(other.number);
    if (!pull.ok) return unknown(pull.error);
    const files = await changedFiles(port, pull.value, about.config);
    if ("kind" in files) return files;
    if (!files.classification.gpu) continue;
    const why = `pull request #${other.number} has the same commit for ${other.baseRef}, and needs the GPU`;
    if (pull.value.headRepositoryId !== about.repositoryId) {
      return refused("fork", `A check speaks for a commit: ${why}, but comes from a fork.`, terms);
    }
    const { defaultBranch, defaultSha } = admission;
    const workflows = await trustedWorkflows(port, { config: about.config, terms, defaultBranch, defaultSha });
    if ("kind" in workflows) return workflows;
    return { ...admitted, admission: { ...admission, workflowBlobs: workflows.blobs, gpuRequired: true, reason: why } };
  }
  return admitted;
}
