/**
 * From a verified webhook body to the `Delivery` the gate hears.
 *
 * The signature was checked before, over the bytes. Here the body becomes the few facts a `Signal` holds; events and
 * actions the gate does not act on are ignored by name, because GitHub adds new ones without notice. Nothing computed
 * late is taken from a payload: mergeability is always unknown in it, and the pull requests it lists are those that
 * match by SHA, not the one that caused it.
 */

import * as z from "zod";
import type { Delivery, RepositoryRef, Signal } from "../lifecycle/signal.ts";
import { err, ok, type Result } from "../result.ts";
import { parseExactJson } from "./exact-json.ts";
import {
  actor,
  githubId,
  optionalId,
  optionalText,
  repositoryRef,
  sha,
  whereUnreadable,
  workflowPathOf,
} from "./schema.ts";

export interface WebhookBody {
  /** `X-GitHub-Event`. */
  readonly event: string;
  /** `X-GitHub-Delivery`. */
  readonly guid: string;
  /** The body as received and verified, as text. */
  readonly text: string;
}

/** Nothing to act on; the reason is for a log line. */
export interface Ignored {
  readonly ignored: string;
  /** An installation event that names no repository: it is about every one of that installation's. */
  readonly everywhere?: Omit<Delivery, "repository">;
}

/** One delivery for each repository concerned: one, except for installation events, which may name many. */
export interface Deliveries {
  readonly deliveries: readonly Delivery[];
}

export type WebhookProblem =
  | { readonly reason: "not-json" }
  /** An event the gate acts on, without a field it needs. `what` names the field, never its value. */
  | { readonly reason: "unreadable"; readonly what: string };

/** Actions nobody here knows are told by name, in an answer, a log line and a tally: only what is a name. */
const named = z.object({ action: z.string().regex(/^\w{1,100}$/) });

/** Parses a verified body. Never throws for what is in it. */
export function parseWebhook(body: WebhookBody): Result<Deliveries | Ignored, WebhookProblem> {
  const read = READERS[body.event];
  if (read === undefined || !Object.hasOwn(READERS, body.event)) return ok({ ignored: `event ${body.event}` });
  let json: unknown;
  try {
    json = parseExactJson(body.text);
  } catch {
    return err({ reason: "not-json" });
  }
  const action = named.safeParse(json);
  if (!action.success) return err({ reason: "unreadable", what: whereUnreadable(action.error) });
  if (!read.actions.includes(action.data.action)) return ok({ ignored: `${body.event}.${action.data.action}` });
  const parsed = read.schema.safeParse(json);
  if (!parsed.success) return err({ reason: "unreadable", what: whereUnreadable(parsed.error) });
  if ("ignored" in parsed.data) return ok({ ignored: parsed.data.ignored });
  const { repositories, installationId, signal } = parsed.data;
  if (repositories.length === 0) {
    const everywhere = { guid: body.guid, event: body.event, installationId, signal };
    return ok({ ignored: `${body.event}.${action.data.action} that names no repository`, everywhere });
  }
  return ok({
    deliveries: repositories.map((repository) => ({
      guid: body.guid,
      event: body.event,
      repository,
      installationId,
      signal,
    })),
  });
}

interface Heard {
  readonly repositories: readonly RepositoryRef[];
  readonly installationId: string | null;
  readonly signal: Signal;
}

interface Reader {
  /** The actions acted on. */
  readonly actions: readonly string[];
  readonly schema: z.ZodType<Heard | Ignored>;
}

const installation = z
  .object({ id: optionalId })
  .nullish()
  .transform((value) => value?.id ?? null);

/** What every payload about one repository has. */
const common = z.object({ repository: repositoryRef, installation, sender: actor });

function heard(body: { repository: RepositoryRef; installation: string | null }, signal: Signal): Heard {
  return { repositories: [body.repository], installationId: body.installation, signal };
}

const pullRequestActions = [
  "opened",
  "reopened",
  "synchronize",
  "ready_for_review",
  "converted_to_draft",
  "labeled",
  "unlabeled",
  "closed",
  "edited",
] as const;

const pullRequest = common
  .extend({
    action: z.enum(pullRequestActions),
    label: z.object({ name: z.string() }).nullish(),
    pull_request: z.object({
      number: z.int().positive(),
      draft: z.boolean().optional(),
      head: z.object({ sha, repo: z.object({ id: githubId }).nullable() }),
      // A hint like all else here: a payload without one is still heard.
      base: z.object({ ref: z.string() }).nullish(),
    }),
  })
  .transform((body) =>
    heard(body, {
      kind: "pull-request",
      action: body.action,
      prNumber: body.pull_request.number,
      headSha: body.pull_request.head.sha,
      headRepositoryId: body.pull_request.head.repo?.id ?? null,
      ...(body.pull_request.base?.ref === undefined ? {} : { baseRef: body.pull_request.base.ref }),
      draft: body.pull_request.draft ?? false,
      label: body.label?.name ?? null,
      sender: body.sender,
    }),
  );

const workflowRunActions = ["requested", "in_progress", "completed"] as const;

const workflowRun = common
  .extend({
    action: z.enum(workflowRunActions),
    workflow: z.object({ path: optionalText }).nullish(),
    workflow_run: z.object({
      id: githubId,
      // Payloads from before re-runs were numbered have none.
      run_attempt: z.int().positive().optional(),
      path: optionalText,
      event: z.string(),
      status: z.string(),
      conclusion: optionalText,
      head_sha: sha,
      head_branch: optionalText,
      head_repository: z.object({ id: githubId, owner: z.object({ login: z.string() }).nullish() }).nullish(),
      triggering_actor: actor.nullish(),
    }),
  })
  .transform((body, context): Heard => {
    const run = body.workflow_run;
    const path = run.path ?? body.workflow?.path ?? null;
    if (path === null) {
      context.addIssue({ code: "custom", path: ["workflow_run", "path"], message: "missing" });
      return z.NEVER;
    }
    return heard(body, {
      kind: "workflow-run",
      action: body.action,
      runId: run.id,
      runAttempt: run.run_attempt ?? 1,
      workflowPath: workflowPathOf(path),
      event: run.event,
      status: run.status,
      conclusion: run.conclusion,
      headSha: run.head_sha,
      headBranch: run.head_branch,
      headRepositoryId: run.head_repository?.id ?? null,
      headRepositoryOwner: run.head_repository?.owner?.login ?? null,
      triggeringActor: run.triggering_actor ?? body.sender,
    });
  });

const workflowJobActions = ["queued", "waiting", "in_progress", "completed"] as const;

const workflowJob = common
  .extend({
    action: z.enum(workflowJobActions),
    workflow_job: z.object({
      id: githubId,
      name: z.string(),
      run_id: githubId,
      run_attempt: z.int().positive().optional(),
      // Not the action: a `queued` job that waits for an environment says "waiting" here.
      status: z.string(),
      conclusion: optionalText,
      labels: z.array(z.string()),
      runner_id: optionalId,
    }),
  })
  .transform(({ workflow_job: job, ...body }) =>
    heard(body, {
      kind: "workflow-job",
      action: body.action,
      jobId: job.id,
      jobName: job.name,
      runId: job.run_id,
      runAttempt: job.run_attempt ?? 1,
      status: job.status,
      conclusion: job.conclusion,
      labels: job.labels,
      runnerId: job.runner_id,
    }),
  );

const app = z.object({ id: githubId }).nullish();
const checkRunActions = ["created", "completed", "rerequested", "requested_action"] as const;

const checkRun = common
  .extend({
    action: z.enum(checkRunActions),
    requested_action: z.object({ identifier: z.string() }).nullish(),
    check_run: z.object({ id: githubId, name: z.string(), head_sha: sha, external_id: optionalText, app }),
  })
  .transform((body) =>
    heard(body, {
      kind: "check-run",
      action: body.action,
      checkRunId: body.check_run.id,
      name: body.check_run.name,
      headSha: body.check_run.head_sha,
      externalId: body.check_run.external_id === "" ? null : body.check_run.external_id,
      appId: body.check_run.app?.id ?? null,
      identifier: body.requested_action?.identifier ?? null,
      sender: body.sender,
    }),
  );

const checkSuiteActions = ["rerequested"] as const;

const checkSuite = common
  .extend({
    action: z.enum(checkSuiteActions),
    check_suite: z.object({ head_sha: sha, head_branch: optionalText, app }),
  })
  .transform((body) =>
    heard(body, {
      kind: "check-suite",
      action: body.action,
      headSha: body.check_suite.head_sha,
      headBranch: body.check_suite.head_branch,
      appId: body.check_suite.app?.id ?? null,
      sender: body.sender,
    }),
  );

const mergeGroupActions = ["checks_requested", "destroyed"] as const;

const mergeGroup = common
  // A destroyed group may be nobody's doing; the signal has no sender.
  .omit({ sender: true })
  .extend({
    action: z.enum(mergeGroupActions),
    merge_group: z.object({ head_sha: sha, head_ref: z.string(), base_sha: sha, base_ref: z.string() }),
  })
  .transform((body) =>
    heard(body, {
      kind: "merge-group",
      action: body.action,
      headSha: body.merge_group.head_sha,
      headRef: body.merge_group.head_ref,
      baseSha: body.merge_group.base_sha,
      baseRef: body.merge_group.base_ref,
    }),
  );

/** Of a comment only this much can be a command. */
const FIRST_LINE_LIMIT = 200;

const comment = common
  .extend({
    issue: z.object({ number: z.int().positive(), pull_request: z.unknown().optional() }),
    comment: z.object({ id: githubId, body: optionalText, created_at: z.string(), user: actor.nullish() }),
  })
  .transform((body): Heard | Ignored => {
    if (body.issue.pull_request === undefined || body.issue.pull_request === null) {
      return { ignored: "issue_comment on an issue" };
    }
    return heard(body, {
      kind: "comment",
      prNumber: body.issue.number,
      commentId: body.comment.id,
      firstLine: firstLineOf(body.comment.body ?? ""),
      createdAt: body.comment.created_at,
      sender: body.sender,
    });
  });

function firstLineOf(text: string): string {
  const line = /^[^\r\n]*/.exec(text.trimStart())?.[0] ?? "";
  return line.slice(0, FIRST_LINE_LIMIT).trimEnd();
}

const repositoryActions = ["renamed", "transferred", "archived", "unarchived", "deleted"] as const;

const repository = common
  .omit({ sender: true })
  .extend({ action: z.enum(repositoryActions) })
  .transform((body) => heard(body, { kind: "repository", action: body.action }));

/** Installation events list repositories in a short form, without an owner object. */
const listedRepository = z
  .object({ id: githubId, name: z.string(), full_name: z.string() })
  .transform((listed): RepositoryRef => ({
    id: listed.id,
    owner: listed.full_name.split("/")[0] ?? "",
    name: listed.name,
  }));

const installationActions = ["created", "deleted", "suspend", "unsuspend"] as const;

const installationEvent = z
  .object({
    action: z.enum(installationActions),
    installation: z.object({ id: githubId }),
    repositories: z.array(listedRepository).nullish(),
  })
  .transform((body): Heard => ({
    repositories: body.repositories ?? [],
    installationId: body.installation.id,
    signal: { kind: "installation", action: body.action },
  }));

const installationRepositoriesActions = ["added", "removed"] as const;

const installationRepositories = z
  .object({
    action: z.enum(installationRepositoriesActions),
    installation: z.object({ id: githubId }),
    repositories_added: z.array(listedRepository).nullish(),
    // A deleted repository is listed with its id alone.
    repositories_removed: z
      .array(z.object({ id: githubId, name: z.string().nullish(), full_name: z.string().nullish() }))
      .nullish(),
  })
  .transform((body): Heard => ({
    repositories:
      body.action === "added"
        ? (body.repositories_added ?? [])
        : (body.repositories_removed ?? []).map((removed) => ({
            id: removed.id,
            owner: removed.full_name?.split("/")[0] ?? "",
            name: removed.name ?? "",
          })),
    installationId: body.installation.id,
    signal: { kind: "installation", action: body.action },
  }));

const READERS: Readonly<Record<string, Reader>> = {
  pull_request: { actions: pullRequestActions, schema: pullRequest },
  workflow_run: { actions: workflowRunActions, schema: workflowRun },
  workflow_job: { actions: workflowJobActions, schema: workflowJob },
  check_run: { actions: checkRunActions, schema: checkRun },
  check_suite: { actions: checkSuiteActions, schema: checkSuite },
  merge_group: { actions: mergeGroupActions, schema: mergeGroup },
  issue_comment: { actions: ["created"], schema: comment },
  repository: { actions: repositoryActions, schema: repository },
  installation: { actions: installationActions, schema: installationEvent },
  installation_repositories: { actions: installationRepositoriesActions, schema: installationRepositories },
};
