/** Routes of check runs and suites. An App writes only what is its own. */

import * as z from "zod";
import { checkRunsOfCommit, checkWritten, emitCheckRun, newCheckRun, suiteFor } from "./checks.ts";
import { countedAnswer, idParam, listAnswer, notFound, param, readBody, Refusal, repositoryOf } from "./http.ts";
import type { Call, Route } from "./http.ts";
import type { Account, CheckRun, CheckSuite } from "./model.ts";
import { resolveCommit } from "./refs.ts";
import { renderAnnotation, renderCheckRun, renderSuite } from "./render-checks.ts";
import { renderAccount } from "./render-common.ts";

const conclusion = z.enum(["action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out"]);
const text = z.string().max(65_535, "is too long (maximum is 65535 characters)");

const fields = {
  details_url: z.string().optional(),
  external_id: z.string().optional(),
  // requested, waiting and pending are for GitHub Actions only; stale only GitHub sets.
  status: z.enum(["queued", "in_progress", "completed"]).optional(),
  started_at: z.string().optional(),
  conclusion: conclusion.optional(),
  completed_at: z.string().optional(),
  output: z
    .object({
      title: z.string(),
      summary: text,
      text: text.optional(),
      annotations: z
        .array(
          z.object({
            path: z.string(),
            start_line: z.number(),
            end_line: z.number(),
            annotation_level: z.enum(["notice", "warning", "failure"]),
            message: z.string().max(65_536),
            title: z.string().max(255).optional(),
            raw_details: z.string().max(65_536).optional(),
          }),
        )
        .max(50, "may have at most 50 items")
        .optional(),
    })
    .optional(),
  actions: z
    .array(z.object({ label: z.string().max(20), description: z.string().max(40), identifier: z.string().max(20) }))
    .max(3, "may have at most 3 items")
    .optional(),
};
const createBody = z.object({ name: z.string().min(1), head_sha: z.string(), ...fields });
const updateBody = z.object({ name: z.string().min(1).optional(), ...fields });

type Update = z.infer<typeof updateBody>;

function bot(call: Call): Account {
  return call.hub.world.ensureAccount(`${call.hub.app.slug}[bot]`, "Bot");
}

function instant(value: string | undefined, fallback: number): number {
  const parsed = value === undefined ? Number.NaN : Date.parse(value);
  return Number.isNaN(parsed) ? fallback : parsed;
}

function requireConclusion(body: Pick<Update, "status" | "conclusion">): void {
  if (body.status === "completed" && body.conclusion === undefined) {
    throw new Refusal(422, "Invalid request.\n\nA completed check run needs a conclusion.");
  }
}

/** Writes the given fields. A conclusion makes the run completed, whatever the status says. */
function write(call: Call, run: CheckRun, body: Update): void {
  const now = call.hub.world.clock.now();
  if (body.name !== undefined) run.name = body.name;
  if (body.external_id !== undefined) run.externalId = body.external_id;
  if (body.details_url !== undefined) run.detailsUrl = body.details_url;
  const status = body.conclusion !== undefined ? "completed" : body.status;
  if (status !== undefined) {
    run.status = status;
    run.conclusion = body.conclusion ?? null;
    if (status !== "queued") run.startedAt ??= instant(body.started_at, now);
    run.completedAt = status === "completed" ? instant(body.completed_at, now) : null;
  }
  if (body.output !== undefined) {
    run.title = body.output.title;
    run.summary = body.output.summary;
    run.text = body.output.text ?? null;
    // Annotations are added to on every write, never replaced.
    for (const one of body.output.annotations ?? []) {
      run.annotations.push({
        path: one.path,
        startLine: one.start_line,
        endLine: one.end_line,
        level: one.annotation_level,
        title: one.title ?? null,
        message: one.message,
        rawDetails: one.raw_details ?? null,
      });
    }
  }
  if (body.actions !== undefined) run.actions = body.actions;
}

function runOf(call: Call): CheckRun {
  const run = call.hub.world.checkRuns.get(idParam(call, "check_run_id"));
  if (run === undefined || run.repository.id !== repositoryOf(call).id) throw notFound();
  return run;
}

function suiteOf(call: Call): CheckSuite {
  const suite = call.hub.world.suites.get(idParam(call, "check_suite_id"));
  if (suite === undefined || suite.repository.id !== repositoryOf(call).id) throw notFound();
  return suite;
}

function requireOwn(call: Call, appId: number): void {
  if (appId !== call.hub.app.id)
    throw new Refusal(
      403,
      "Invalid app_id `" + appId + "` - check run can only be modified by the GitHub App that created it.",
    );
}

function filters(call: Call) {
  const appId = call.query.get("app_id");
  return {
    latestOnly: call.query.get("filter") !== "all",
    name: call.query.get("check_name"),
    status: call.query.get("status"),
    appId: appId === null ? null : Number(appId),
  };
}

const read = { method: "GET", as: "installation", permission: ["checks=read"] } as const;
const mutate = { as: "installation", permission: ["checks=write"] } as const;

export const checkRoutes: readonly Route[] = [
  {
    ...mutate,
    method: "POST",
    path: "/repos/{owner}/{repo}/check-runs",
    operation: "checks/create",
    handle: (call) => {
      const repository = repositoryOf(call);
      const body = readBody(call, createBody);
      if (!/^[0-9a-f]{40}$/.test(body.head_sha) || repository.git.findCommit(body.head_sha) === undefined) {
        throw new Refusal(422, `No commit found for SHA: ${body.head_sha}`);
      }
      requireConclusion(body);
      const { head_sha: _sha, ...rest } = body;
      const run = newCheckRun(call.hub, suiteFor(call.hub, repository, call.hub.app.id, body.head_sha), {
        name: body.name,
      });
      write(call, run, rest);
      checkWritten(call.hub, run, "create", false, bot(call));
      return { status: 201, json: renderCheckRun(call.hub, run) };
    },
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/check-runs/{check_run_id}",
    operation: "checks/get",
    handle: (call) => ({ status: 200, json: renderCheckRun(call.hub, runOf(call)) }),
  },
  {
    ...mutate,
    method: "PATCH",
    path: "/repos/{owner}/{repo}/check-runs/{check_run_id}",
    operation: "checks/update",
    handle: (call) => {
      const run = runOf(call);
      requireOwn(call, run.appId);
      const body = readBody(call, updateBody);
      requireConclusion(body);
      const wasCompleted = run.status === "completed";
      write(call, run, body);
      checkWritten(call.hub, run, "update", wasCompleted, bot(call));
      return { status: 200, json: renderCheckRun(call.hub, run) };
    },
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations",
    operation: "checks/list-annotations",
    handle: (call) => {
      const run = runOf(call);
      return listAnswer(call, run.annotations, (one) => renderAnnotation(call.hub, run, one));
    },
  },
  {
    ...mutate,
    method: "POST",
    path: "/repos/{owner}/{repo}/check-runs/{check_run_id}/rerequest",
    operation: "checks/rerequest-run",
    handle: (call) => {
      const run = runOf(call);
      requireOwn(call, run.appId);
      run.suite.requeued = true;
      emitCheckRun(call.hub, run, "rerequested", bot(call));
      return { status: 201, json: {} };
    },
  },
  {
    ...mutate,
    method: "POST",
    path: "/repos/{owner}/{repo}/check-suites",
    operation: "checks/create-suite",
    handle: (call) => {
      const repository = repositoryOf(call);
      const body = readBody(call, z.object({ head_sha: z.string() }));
      const { sha } = resolveCommit(repository, body.head_sha);
      const known = [...call.hub.world.suites.values()].some(
        (one) => one.repository.id === repository.id && one.appId === call.hub.app.id && one.headSha === sha,
      );
      const suite = suiteFor(call.hub, repository, call.hub.app.id, sha);
      return { status: known ? 200 : 201, json: renderSuite(call.hub, suite) };
    },
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/check-suites/{check_suite_id}",
    operation: "checks/get-suite",
    handle: (call) => ({ status: 200, json: renderSuite(call.hub, suiteOf(call)) }),
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/check-suites/{check_suite_id}/check-runs",
    operation: "checks/list-for-suite",
    handle: (call) => {
      const suite = suiteOf(call);
      const runs = checkRunsOfCommit(call.hub, suite.repository, suite.headSha, {
        ...filters(call),
        suiteId: suite.id,
      });
      return countedAnswer(call, "check_runs", runs, (run) => renderCheckRun(call.hub, run));
    },
  },
  {
    ...mutate,
    method: "POST",
    path: "/repos/{owner}/{repo}/check-suites/{check_suite_id}/rerequest",
    operation: "checks/rerequest-suite",
    handle: (call) => {
      const suite = suiteOf(call);
      requireOwn(call, suite.appId);
      suite.requeued = true;
      call.hub.webhooks.emit("check_suite", "rerequested", suite.repository, renderAccount(call.hub, bot(call)), {
        check_suite: renderSuite(call.hub, suite),
      });
      return { status: 201, json: {} };
    },
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/commits/{ref}/check-runs",
    operation: "checks/list-for-ref",
    handle: (call) => {
      const repository = repositoryOf(call);
      const { sha } = resolveCommit(repository, param(call, "ref"));
      const runs = checkRunsOfCommit(call.hub, repository, sha, { ...filters(call), suiteId: null });
      return countedAnswer(call, "check_runs", runs, (run) => renderCheckRun(call.hub, run));
    },
  },
  {
    ...read,
    path: "/repos/{owner}/{repo}/commits/{ref}/check-suites",
    operation: "checks/list-suites-for-ref",
    handle: (call) => {
      const repository = repositoryOf(call);
      const { sha } = resolveCommit(repository, param(call, "ref"));
      const { appId } = filters(call);
      const suites = [...call.hub.world.suites.values()].filter(
        (suite) =>
          suite.repository.id === repository.id && suite.headSha === sha && (appId === null || suite.appId === appId),
      );
      return countedAnswer(call, "check_suites", suites, (suite) => renderSuite(call.hub, suite));
    },
  },
];
