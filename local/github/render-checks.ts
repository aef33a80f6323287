/** Check runs, check suites, annotations and commit statuses on the wire. */

import type { Hub } from "./hub.ts";
import type { Annotation, CheckRun, CheckSuite, CommitStatus, Conclusion, Repository } from "./model.ts";
import { fullName, iso } from "./model.ts";
import {
  nodeId,
  renderAccount,
  renderApp,
  renderMinimalRepository,
  renderSimpleCommit,
  repositoryUrl,
} from "./render-common.ts";
import type { Json } from "./render-common.ts";
import { matchingPulls } from "./render-pulls.ts";

/** The newest check run of each name in a suite; the older ones are superseded. */
export function latestByName(runs: readonly CheckRun[]): CheckRun[] {
  const latest = new Map<string, CheckRun>();
  for (const run of runs) {
    const known = latest.get(run.name);
    if (known === undefined || known.id < run.id) latest.set(run.name, run);
  }
  return [...latest.values()];
}

export function runsOfSuite(hub: Hub, suite: CheckSuite): CheckRun[] {
  return [...hub.world.checkRuns.values()].filter((run) => run.suite.id === suite.id);
}

const priority: readonly Conclusion[] = [
  "action_required",
  "timed_out",
  "cancelled",
  "failure",
  "stale",
  "neutral",
  "success",
  "skipped",
];

export function suiteState(hub: Hub, suite: CheckSuite): { status: string; conclusion: Conclusion | null } {
  const runs = latestByName(runsOfSuite(hub, suite));
  if (suite.requeued || runs.length === 0) return { status: "queued", conclusion: null };
  if (runs.some((run) => run.status !== "completed")) {
    return { status: runs.every((run) => run.status === "queued") ? "queued" : "in_progress", conclusion: null };
  }
  return {
    status: "completed",
    conclusion: priority.find((one) => runs.some((run) => run.conclusion === one)) ?? null,
  };
}

export function renderSuite(hub: Hub, suite: CheckSuite): Json {
  const { repository } = suite;
  const url = `${repositoryUrl(hub, repository)}/check-suites/${suite.id}`;
  const head = repository.git.findCommit(suite.headSha);
  return {
    id: suite.id,
    node_id: nodeId("CheckSuite", suite.id),
    head_branch: suite.headBranch,
    head_sha: suite.headSha,
    ...suiteState(hub, suite),
    url,
    before: suite.before,
    after: suite.headSha,
    pull_requests: matchingPulls(hub, repository, suite.headSha),
    app: renderApp(hub, suite.appId),
    repository: renderMinimalRepository(hub, repository),
    created_at: iso(suite.createdAt),
    updated_at: iso(suite.updatedAt),
    head_commit: head === undefined ? null : renderSimpleCommit(head),
    latest_check_runs_count: latestByName(runsOfSuite(hub, suite)).length,
    check_runs_url: `${url}/check-runs`,
    rerequestable: true,
    runs_rerequestable: true,
  };
}

export function renderCheckRun(hub: Hub, run: CheckRun): Json {
  const { repository } = run;
  const url = `${repositoryUrl(hub, repository)}/check-runs/${run.id}`;
  const html = `${hub.url}/${fullName(repository)}/runs/${run.id}`;
  return {
    id: run.id,
    name: run.name,
    node_id: nodeId("CheckRun", run.id),
    head_sha: run.headSha,
    external_id: run.externalId,
    url,
    html_url: html,
    details_url: run.detailsUrl ?? hub.url,
    status: run.status,
    conclusion: run.conclusion,
    started_at: run.startedAt === null ? null : iso(run.startedAt),
    completed_at: run.completedAt === null ? null : iso(run.completedAt),
    output: {
      title: run.title,
      summary: run.summary,
      text: run.text,
      annotations_count: run.annotations.length,
      annotations_url: `${url}/annotations`,
    },
    check_suite: { id: run.suite.id },
    app: renderApp(hub, run.appId),
    pull_requests: matchingPulls(hub, repository, run.headSha),
  };
}

/** Webhooks carry more of the suite than API answers do. */
export function renderCheckRunForWebhook(hub: Hub, run: CheckRun): Json {
  const suite = renderSuite(hub, run.suite);
  const keys = ["id", "node_id", "head_branch", "head_sha", "status", "conclusion", "url", "before", "after"];
  return {
    ...renderCheckRun(hub, run),
    check_suite: {
      ...Object.fromEntries(keys.map((key) => [key, suite[key]])),
      pull_requests: suite["pull_requests"],
      app: suite["app"],
      created_at: suite["created_at"],
      updated_at: suite["updated_at"],
    },
  };
}

export function renderAnnotation(hub: Hub, run: CheckRun, annotation: Annotation): Json {
  return {
    path: annotation.path,
    blob_href: `${hub.url}/${fullName(run.repository)}/blob/${run.headSha}/${annotation.path}`,
    start_line: annotation.startLine,
    start_column: null,
    end_line: annotation.endLine,
    end_column: null,
    annotation_level: annotation.level,
    title: annotation.title,
    message: annotation.message,
    raw_details: annotation.rawDetails,
  };
}

export function renderStatus(hub: Hub, repository: Repository, status: CommitStatus): Json {
  return {
    url: `${repositoryUrl(hub, repository)}/statuses/${status.sha}`,
    avatar_url: `${hub.url}/avatars/app`,
    id: status.id,
    node_id: nodeId("StatusContext", status.id),
    state: status.state,
    description: status.description,
    target_url: status.targetUrl,
    context: status.context,
    created_at: iso(status.createdAt),
    updated_at: iso(status.createdAt),
    creator: renderAccount(hub, hub.world.ensureAccount(`${hub.app.slug}[bot]`, "Bot")),
  };
}
