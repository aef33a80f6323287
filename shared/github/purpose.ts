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
  | "statuses"
  | "settings"
  | "checks"
  | "actions"
  | "repository-runners-read"
  | "repository-runners"
  | "organization-runners-read"
  | "organization-runners";

export interface TokenScope {
  readonly installationId: string;
  readonly repositoryId: string;
  readonly purpose: Purpose;
}

type Permissions = Readonly<Record<string, "read" | "write">>;

export const PERMISSIONS: Readonly<Record<Purpose, Permissions>> = {
  // Which repositories an installation has: asked without naming one.
  repositories: { metadata: "read" },
  // Configuration, trees and commits; pull requests and who may what; runs, jobs and artifacts; check runs.
  read: { metadata: "read", contents: "read", pull_requests: "read", actions: "read", checks: "read" },
  // The switches of a maintainer's own lanes.
  variables: { actions_variables: "read" },
  // Who else reports under the check's name, and what classic protection requires: the doctor's questions.
  statuses: { statuses: "read" },
  settings: { administration: "read" },
  // The gate's check.
  checks: { checks: "write" },
  // Dispatching a trusted workflow, cancelling a run.
  actions: { actions: "write" },
  // Who is online: enough for whoever only probes machines.
  "repository-runners-read": { administration: "read" },
  "organization-runners-read": { organization_self_hosted_runners: "read" },
  // Single-use runners. At repository level GitHub has no smaller permission for it.
  "repository-runners": { administration: "write" },
  "organization-runners": { organization_self_hosted_runners: "write" },
};

export function purposeOf(call: Pick<GitHubCall, "method" | "path">): Purpose {
  const [path = ""] = call.path.split("?");
  const reads = call.method === "GET";
  const groups = /^\/orgs\/[^/]+\/actions\/runner/.test(path);
  if (groups && reads) return "organization-runners-read";
  if (groups && /\/runners\/(?:generate-jitconfig|\d+)$/.test(path)) return "organization-runners";
  const below = /^\/repos\/[^/]+\/[^/]+(\/.*)?$/.exec(path)?.[1] ?? "";
  if (reads && /^\/actions\/runners(?:\/|$)/.test(below)) return "repository-runners-read";
  if (/^\/actions\/runners\/(?:generate-jitconfig|\d+)$/.test(below)) return "repository-runners";
  const [, area, kind] = below.split("/");
  if (reads && area === "actions" && kind === "variables") return "variables";
  if (reads && area === "commits" && /^\/commits\/.+\/status(?:es)?$/.test(below)) return "statuses";
  if (reads && area === "branches" && below.endsWith("/protection/required_status_checks")) return "settings";
  if (reads) return "read";
  if (/^\/check-runs(?:\/|$)/.test(below)) return "checks";
  if (/^\/actions\/(?:workflows\/[^/]+\/dispatches|runs\/\d+\/(?:force-)?cancel)$/.test(below)) return "actions";
  return "read";
}

/** The body of the token request. */
export function narrowed(scope: TokenScope): object {
  const permissions = PERMISSIONS[scope.purpose];
  const id = Number(scope.repositoryId);
  if (scope.purpose === "repositories") return { permissions };
  // An id that a number cannot hold would name another repository, and none would mean all of the installation's: no
  // repository has the id 0, so GitHub refuses.
  return { repository_ids: [Number.isSafeInteger(id) && id > 0 ? id : 0], permissions };
}
