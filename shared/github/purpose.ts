/**
 * What a call needs, and the narrowest token that gives it: one repository and one purpose.
 *
 * A token may do whatever the installation may unless it is narrowed when it is minted (github-facts section 2). So the one
 * that reads cannot write, the one that writes checks cannot start workflows, and only the one for runners can register a
 * machine. The purpose is told by method and path, so that no caller has to remember to say it; a change that no line here
 * knows gets a token that can only read, and is refused by GitHub.
 */
import type { GitHubCall } from "./call.ts";

export type Purpose =
  | "repositories"
  | "read"
  | "variables"
  | "checks"
  | "actions"
  | "repository-runners"
  | "organization-runners";

export interface TokenScope {
  readonly installationId: string;
  readonly repositoryId: string;
  readonly purpose: Purpose;
}

type Permissions = Readonly<Record<string, "read" | "write">>;

const PERMISSIONS: Readonly<Record<Purpose, Permissions>> = {
  // Which repositories an installation has: asked without naming one.
  repositories: { metadata: "read" },
  // Configuration, trees and commits; pull requests and who may what; runs, jobs and artifacts; check runs.
  read: { metadata: "read", contents: "read", pull_requests: "read", actions: "read", checks: "read" },
  // The switches of a maintainer's own lanes.
  variables: { actions_variables: "read" },
  // The gate's check.
  checks: { checks: "write" },
  // Dispatching a trusted workflow, cancelling a run.
  actions: { actions: "write" },
  // Single-use runners. At repository level GitHub has no smaller permission for it.
  "repository-runners": { administration: "write" },
  "organization-runners": { organization_self_hosted_runners: "write" },
};

export function purposeOf(call: Pick<GitHubCall, "method" | "path">): Purpose {
  const [path = ""] = call.path.split("?");
  if (/^\/orgs\/[^/]+\/actions\/runner/.test(path)) return "organization-runners";
  const below = /^\/repos\/[^/]+\/[^/]+(\/.*)?$/.exec(path)?.[1] ?? "";
  if (/^\/actions\/runners(?:\/|$)/.test(below)) return "repository-runners";
  const [, area, kind] = below.split("/");
  if (area === "actions" && kind === "variables") return "variables";
  if (call.method === "GET") return "read";
  if (/^\/check-runs(?:\/|$)/.test(below)) return "checks";
  if (area === "actions") return "actions";
  return "read";
}

/** The body of the token request. */
export function narrowed(scope: TokenScope): object {
  const permissions = PERMISSIONS[scope.purpose];
  const id = Number(scope.repositoryId);
  // An id that a number cannot hold would name another repository: GitHub's are far below that.
  return Number.isSafeInteger(id) && id > 0 ? { repository_ids: [id], permissions } : { permissions };
}
