/** The server's side of `local/machine/services.ts`: git objects, the run's artifacts, the repository's caches. */
import { unreachable } from "../../shared/result.ts";
import type { GitObjects, ServiceAnswer, ServiceAsk } from "../machine/services.ts";
import type { CacheMode } from "../workflow/schema.ts";
import type { Hub } from "./hub.ts";
import { newArtifact } from "./jobs.ts";
import type { Job, Repository } from "./model.ts";
import { findRef } from "./refs.ts";

const day = 86_400_000;

interface CacheEntry {
  readonly repositoryId: number;
  /** The ref whose run saved it: others restore it only from their own ref, their base, or the default branch. */
  readonly ref: string;
  readonly key: string;
  readonly paths: string;
  readonly tar: string;
}

export class JobServices {
  readonly #hub: () => Hub;
  readonly #caches: CacheEntry[] = [];

  constructor(hub: () => Hub) {
    this.#hub = hub;
  }

  answer(job: Job, cacheMode: CacheMode | null, ask: ServiceAsk): ServiceAnswer {
    switch (ask.what) {
      case "git-objects":
        return gitObjects(job.run.repository, ask.ref, ask.depth);
      case "artifacts":
        return {
          value: job.run.artifacts
            .filter((artifact) => !artifact.deleted)
            .map(({ id, name, digest }) => ({ id, name, digest })),
        };
      case "artifact": {
        const found = job.run.artifacts.find((artifact) => artifact.id === ask.id && !artifact.deleted);
        return found === undefined
          ? { problem: `the run has no artifact ${ask.id}` }
          : { value: found.zip.toString("base64") };
      }
      case "save-artifact":
        return this.#saveArtifact(job, ask);
      case "restore-cache":
        return { value: cacheMode === "none" || cacheMode === "write-only" ? null : this.#restore(job, ask) };
      case "save-cache":
        return { value: this.#save(job, cacheMode, ask) };
      default:
        return unreachable(ask, "service");
    }
  }

  #saveArtifact(job: Job, ask: Extract<ServiceAsk, { what: "save-artifact" }>): ServiceAnswer {
    if (job.run.artifacts.some((artifact) => artifact.name === ask.name && !artifact.deleted))
      return { problem: `an artifact with the name ${ask.name} already exists on the workflow run` };
    const files = Object.fromEntries(
      Object.entries(ask.files).map(([path, content]) => [path, Buffer.from(content, "base64")]),
    );
    const { id, digest } = newArtifact(this.#hub(), job.run, {
      name: ask.name,
      files,
      ...(ask.retentionDays === null ? {} : { expiresInMs: ask.retentionDays * day }),
    });
    return { value: { id, digest } };
  }

  /** Ref by ref: the exact key first, then each allowed beginning, the newest of several. */
  #restore(job: Job, ask: Extract<ServiceAsk, { what: "restore-cache" }>): { key: string; tar: string } | null {
    const { repository, ref, pullNumber } = job.run;
    const base = repository.pulls.find((pull) => pull.number === pullNumber)?.base.branch;
    const refs = [ref, ...[base, repository.defaultBranch].flatMap((branch) => (branch === undefined ? [] : [branch]))];
    for (const one of refs.map((name) => (name.startsWith("refs/") ? name : `refs/heads/${name}`))) {
      const there = this.#caches.filter(
        (entry) => entry.repositoryId === repository.id && entry.ref === one && entry.paths === ask.paths.join("\n"),
      );
      const found =
        there.find((entry) => entry.key === ask.key) ??
        [ask.key, ...ask.restoreKeys]
          .map((begins) => there.findLast((entry) => entry.key.startsWith(begins) && ask.restoreKeys.length > 0))
          .find((entry) => entry !== undefined);
      if (found !== undefined) return { key: found.key, tar: found.tar };
    }
    return null;
  }

  #save(job: Job, mode: CacheMode | null, ask: Extract<ServiceAsk, { what: "save-cache" }>): string | null {
    const { repository, ref } = job.run;
    if (mode === "none" || mode === "read") return "the job's cache token can only read.";
    if (this.#find(repository, ref, ask.key, ask.paths) !== undefined)
      return `another job has saved the key ${ask.key} already.`;
    const { key, tar } = ask;
    this.#caches.push({ repositoryId: repository.id, ref, key, paths: ask.paths.join("\n"), tar });
    return null;
  }

  #find(repository: Repository, ref: string, key: string, paths: readonly string[]): CacheEntry | undefined {
    const wanted = paths.join("\n");
    return this.#caches.find(
      (one) => one.repositoryId === repository.id && one.ref === ref && one.key === key && one.paths === wanted,
    );
  }
}

function gitObjects(repository: Repository, ref: string, depth: number): ServiceAnswer {
  const { git } = repository;
  const sha = /^[0-9a-f]{40}$/.test(ref) && git.findCommit(ref) !== undefined ? ref : findRef(repository, ref)?.sha;
  if (sha === undefined) return { problem: `A branch or tag with the name '${ref}' could not be found` };
  const { ids, shallow } = git.reachable(sha, depth);
  const heads = depth === 0 ? [...repository.refs].filter(([name]) => /^refs\/(heads|tags)\//.test(name)) : [];
  const refs: Record<string, string> = {};
  for (const [name, target] of heads) {
    refs[name.replace(/^refs\/heads\//, "refs/remotes/origin/")] = target;
    for (const id of git.reachable(target, 0).ids) (ids as Set<string>).add(id);
  }
  const objects = Object.fromEntries([...ids].map((id) => [id, git.looseObject(id).toString("base64")]));
  return { value: { sha, shallow: [...shallow], refs, objects } satisfies GitObjects };
}
