/** Routes of artifacts, and the one-minute addresses behind downloads. */

import { countedAnswer, idParam, notFound, param, Refusal, repositoryOf } from "./http.ts";
import type { Call, Route } from "./http.ts";
import type { Artifact, WorkflowRun } from "./model.ts";
import { renderArtifact } from "./render-actions.ts";
import { runOf } from "./routes-actions.ts";

function artifactOf(call: Call): { artifact: Artifact; run: WorkflowRun } {
  const artifact = call.hub.world.artifacts.get(idParam(call, "artifact_id"));
  const run = artifact === undefined ? undefined : call.hub.world.runs.get(artifact.runId);
  if (artifact === undefined || run === undefined || artifact.deleted || run.repository.id !== repositoryOf(call).id)
    throw notFound();
  return { artifact, run };
}

function listArtifacts(call: Call, runs: readonly WorkflowRun[]) {
  const name = call.query.get("name");
  const all = runs
    .flatMap((run) => run.artifacts.map((artifact) => ({ run, artifact })))
    .filter(({ artifact }) => !artifact.deleted && (name === null || artifact.name === name))
    .sort((a, b) => b.artifact.id - a.artifact.id);
  return countedAnswer(call, "artifacts", all, ({ run, artifact }) => renderArtifact(call.hub, run, artifact));
}

const read = { method: "GET", as: "installation", permission: ["actions=read"] } as const;
const base = "/repos/{owner}/{repo}/actions";

export const artifactRoutes: readonly Route[] = [
  {
    ...read,
    path: `${base}/runs/{run_id}/artifacts`,
    operation: "actions/list-workflow-run-artifacts",
    handle: (call) => listArtifacts(call, [runOf(call)]),
  },
  {
    ...read,
    path: `${base}/artifacts`,
    operation: "actions/list-artifacts-for-repo",
    handle: (call) => {
      const { id } = repositoryOf(call);
      return listArtifacts(
        call,
        [...call.hub.world.runs.values()].filter((run) => run.repository.id === id),
      );
    },
  },
  {
    ...read,
    path: `${base}/artifacts/{artifact_id}`,
    operation: "actions/get-artifact",
    handle: (call) => {
      const { artifact, run } = artifactOf(call);
      return { status: 200, json: renderArtifact(call.hub, run, artifact) };
    },
  },
  {
    method: "DELETE",
    as: "installation",
    permission: ["actions=write"],
    path: `${base}/artifacts/{artifact_id}`,
    operation: "actions/delete-artifact",
    handle: (call) => {
      artifactOf(call).artifact.deleted = true;
      return { status: 204 };
    },
  },
  {
    ...read,
    path: `${base}/artifacts/{artifact_id}/{archive_format}`,
    operation: "actions/download-artifact",
    handle: (call) => {
      const { artifact } = artifactOf(call);
      if (param(call, "archive_format") !== "zip") throw notFound();
      if (artifact.expiresAt <= call.hub.world.clock.now()) throw new Refusal(410, "Artifact has expired");
      return {
        status: 302,
        headers: { location: call.hub.engine.links.make({ kind: "artifact", artifactId: artifact.id }) },
      };
    },
  },
  {
    method: "GET",
    path: "/_download/{key}",
    operation: "(download)",
    as: "open",
    handle: (call) => {
      const target = call.hub.engine.links.follow(param(call, "key"));
      if (target === undefined) throw new Refusal(403, "This link has expired.");
      if (target.kind === "log")
        return { status: 200, raw: Buffer.from(call.hub.world.jobs.get(target.jobId)?.log ?? "") };
      const artifact = call.hub.world.artifacts.get(target.artifactId);
      if (artifact === undefined || artifact.deleted) throw notFound();
      return { status: 200, raw: artifact.zip };
    },
  },
];
