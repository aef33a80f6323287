/** Releases, and the classic protection of a branch: what is read of a repository's settings and of its published versions. */

import { sees } from "./auth.ts";
import { listAnswer, notFound, param, Refusal, repositoryOf } from "./http.ts";
import type { Route } from "./http.ts";
import type { Hub } from "./hub.ts";
import type { Release, Repository } from "./model.ts";
import { fullName, iso } from "./model.ts";
import { nodeId, renderAccount, repositoryUrl } from "./render-common.ts";

function renderRelease(hub: Hub, repository: Repository, release: Release): Record<string, unknown> {
  const url = `${repositoryUrl(hub, repository)}/releases/${release.id}`;
  const html = `${hub.url}/${fullName(repository)}/releases`;
  return {
    url,
    html_url: `${html}/tag/${release.tag}`,
    assets_url: `${url}/assets`,
    upload_url: `${url}/assets{?name,label}`,
    tarball_url: `${repositoryUrl(hub, repository)}/tarball/${release.tag}`,
    zipball_url: `${repositoryUrl(hub, repository)}/zipball/${release.tag}`,
    id: release.id,
    node_id: nodeId("Release", release.id),
    tag_name: release.tag,
    target_commitish: repository.defaultBranch,
    name: release.tag,
    body: null,
    draft: false,
    prerelease: release.prerelease,
    created_at: iso(release.publishedAt),
    published_at: iso(release.publishedAt),
    author: renderAccount(hub, repository.owner),
    assets: [],
  };
}

export const releaseRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/releases",
    operation: "repos/list-releases",
    // Published releases of a public repository are everybody's to read.
    as: "open",
    handle: (call) => {
      const repository = repositoryOf(call);
      if (repository.private && !sees(call.caller, repository)) throw notFound();
      const newest = repository.releases.toSorted((a, b) => b.publishedAt - a.publishedAt);
      return listAnswer(call, newest, (release) => renderRelease(call.hub, repository, release));
    },
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/branches/{branch*}/protection/required_status_checks",
    operation: "repos/get-status-checks-protection",
    as: "installation",
    permission: ["administration=read"],
    handle: (call) => {
      const repository = repositoryOf(call);
      const branch = param(call, "branch");
      if (!repository.refs.has(`refs/heads/${branch}`)) throw new Refusal(404, "Branch not found");
      const checks = repository.protections.get(branch);
      if (checks === undefined) throw new Refusal(404, "Branch not protected");
      if (checks.length === 0) throw new Refusal(404, "Required status checks not enabled");
      const url = `${repositoryUrl(call.hub, repository)}/branches/${branch}/protection/required_status_checks`;
      return {
        status: 200,
        json: {
          url,
          contexts_url: `${url}/contexts`,
          strict: false,
          contexts: checks.map(({ context }) => context),
          checks: checks.map(({ context, appId }) => ({ context, app_id: appId })),
        },
      };
    },
  },
];
