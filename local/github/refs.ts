/** Names of commits: full SHAs, branches, tags and full refs, resolved as GitHub's `{ref}` parameters are. */

import type { Commit } from "./git.ts";
import { Refusal } from "./http.ts";
import type { Repository } from "./model.ts";

/** The full ref and SHA behind a name, or null. */
export function findRef(repository: Repository, name: string): { ref: string; sha: string } | null {
  for (const ref of [name, `refs/${name}`, `refs/heads/${name}`, `refs/tags/${name}`]) {
    const sha = repository.refs.get(ref);
    if (sha !== undefined) return { ref, sha };
  }
  return null;
}

export function resolveCommit(repository: Repository, name: string): Commit {
  const commit = repository.git.findCommit(findRef(repository, name)?.sha ?? name);
  if (commit === undefined) throw new Refusal(422, `No commit found for SHA: ${name}`);
  return commit;
}
