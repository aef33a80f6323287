/**
 * Looks for the archives that an earlier preparation built under the same content key, through GitHub's API.
 *
 * A preparation ends with a small artifact named after the key; it is looked up by that name, and its run decides whether
 * it is trusted (shared/policy/artifact-reuse.ts). The archives themselves are that run's six artifacts of the fixed names.
 * Whatever is odd, missing or unreadable means: nothing found, build.
 */
import * as z from "zod";
import { parseExactJson } from "../../shared/github/exact-json.ts";
import { githubId, optionalId } from "../../shared/github/schema.ts";
import { executeArtifacts } from "../../shared/hosted/execute-inputs.ts";
import {
  findArtifact,
  TRUSTED_PRODUCER_EVENTS,
  type ArtifactTrust,
  type ProducerRun,
} from "../../shared/policy/artifact-reuse.ts";
import type { GetPage } from "../../shared/policy/read-runners.ts";
import { err, ok, type Result } from "../../shared/result.ts";

/** Name of the artifact that says: this run holds the archives of that key. */
export function markerName(key: string): string {
  return `gpu-gate-archives-of-${key}`;
}

export interface Lookup {
  readonly get: GetPage;
  readonly owner: string;
  readonly name: string;
  readonly key: string;
  /** The run that asks; it never finds itself. */
  readonly currentRunId: string;
  readonly workflowPaths: ReadonlySet<string>;
  readonly branch: string;
  /** Who started the run that asks: the producer's must be the same. */
  readonly actorId: string;
}

/**
 * `artifactIds` are the parts and their manifest, separated by commas. `why` is one sentence without an end; `cause`, another,
 * says what GitHub's API did when it told nothing.
 */
export type Earlier =
  | { readonly kind: "found"; readonly runId: string; readonly artifactIds: string }
  | { readonly kind: "none"; readonly why: string; readonly cause: string | null };

/** GitHub lists a hundred at most; what is not among the newest hundred of one name is not worth a second page. */
const PAGE = 100;

const artifactRows = z.object({
  artifacts: z.array(
    z.object({
      id: githubId,
      name: z.string(),
      expired: z.boolean(),
      workflow_run: z.object({ id: optionalId }).nullish(),
    }),
  ),
});

const producerRun = z
  .object({
    id: githubId,
    path: z.string(),
    event: z.string(),
    head_branch: z.string().nullable(),
    head_repository: z.object({ full_name: z.string() }).nullish(),
    actor: z.object({ id: githubId }).nullish(),
  })
  .transform((run): ProducerRun => ({
    id: run.id,
    workflowPath: run.path,
    event: run.event,
    headBranch: run.head_branch,
    headRepository: run.head_repository?.full_name ?? null,
    actor: run.actor?.id ?? null,
  }));

export async function findEarlier(lookup: Lookup): Promise<Earlier> {
  const { get, owner, name, key } = lookup;
  let cause: string | null = null;
  const none = (why: string): Earlier => ({ kind: "none", why, cause });
  const read = async <T>(path: string, schema: z.ZodType<T>): Promise<T | null> => {
    const answer = await ask(get, path, schema);
    cause = answer.ok ? null : answer.error;
    return answer.ok ? answer.value : null;
  };
  const api = `/repos/${owner}/${name}/actions`;
  const marker = markerName(key);
  const listed = await read(`${api}/artifacts?name=${encodeURIComponent(marker)}&per_page=${PAGE}`, artifactRows);
  if (listed === null) return none("GitHub's list of artifacts could not be read");
  const rows = listed.artifacts.map((row) => ({ ...row, runId: row.workflow_run?.id ?? null }));
  const trust: ArtifactTrust = {
    repository: `${owner}/${name}`,
    currentRunId: lookup.currentRunId,
    workflowPaths: lookup.workflowPaths,
    branch: lookup.branch,
    actor: lookup.actorId,
    events: TRUSTED_PRODUCER_EVENTS,
  };
  const found = await findArtifact(marker, rows, trust, (runId) => read(`${api}/runs/${runId}`, producerRun));
  if (!found.ok) return none(found.error.what);
  if (found.value === null) return none(`no trusted run has built ${key}`);
  const { runId } = found.value;
  const pieces = await read(`${api}/runs/${runId}/artifacts?per_page=${PAGE}`, artifactRows);
  if (pieces === null) return none(`the artifacts of run ${runId} could not be read`);
  const artifactIds = executeArtifacts(pieces.artifacts.filter((piece) => !piece.expired)).artifact_ids;
  if (artifactIds === "") return none(`the archives of run ${runId} are not complete any more`);
  return { kind: "found", runId, artifactIds };
}

/** An answer of the expected form, or in one sentence without an end why there is none. */
async function ask<T>(get: GetPage, path: string, schema: z.ZodType<T>): Promise<Result<T, string>> {
  const answer = await get(path);
  if (answer.kind !== "answer") return err(answer.what);
  const { pathname } = new URL(path, "https://api");
  if (answer.status !== 200) return err(`GET ${pathname} was answered ${answer.status}${hintAt(answer.status)}`);
  try {
    const parsed = schema.safeParse(parseExactJson(answer.body));
    if (parsed.success) return ok(parsed.data);
  } catch {
    // Not JSON: as good as no answer.
  }
  return err(`GET ${pathname} was answered in a form that is not GitHub's`);
}

function hintAt(status: number): string {
  if (status === 401) return ": the token is not valid any more";
  // For a private repository that a token may not see, GitHub says that there is none.
  return status === 403 || status === 404
    ? ": the job needs 'permissions: actions: read', or GitHub's limit is used up"
    : "";
}
