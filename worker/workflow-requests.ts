/**
 * `POST /v1/recover`, `POST /v1/validate`, `GET /v1/requests/:id`: what a maintainer's dispatched run may ask for.
 *
 * The caller names a pull request's number or a commit, nothing else: the tested revision, the check's target and the
 * workflow's ref are derived here and in the gate. Unknown keys are refused, so that nobody believes one was heard.
 */
import * as z from "zod";
import { mayCauseSpending } from "../shared/authorize/authorize.ts";
import type { Dispatched, DispatchedAsk, KeepAnswer } from "../durable-objects/gate/dispatched.ts";
import { isRequestId } from "../shared/lifecycle/request-id.ts";
import { unreachable } from "../shared/result.ts";
import { githubUnavailable, problem, unavailable, type WorkflowAnswer } from "./workflow-answer.ts";
import { openingCaller, originatingCaller, type AskingWorkflow, type OpeningCaller } from "./workflow-caller.ts";
import { readJson } from "./workflow-body.ts";
import type { WorkflowPorts } from "./workflow-ports.ts";

const commit = z.string().regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/, "must be a whole commit id in lower-case hex");

/** Keep the pod for debugging, should its job not pass; the configuration's longest life is the end of it. */
const keepMinutes = z.int().min(1).max(720).optional();
const recoverBody = z.strictObject({ pr_number: z.int().min(1).max(2_147_483_647), keep_minutes: keepMinutes });
const validateBody = z.strictObject({ revision: commit, check_head: commit.optional(), keep_minutes: keepMinutes });

export async function receiveRecover(request: Request, ports: WorkflowPorts): Promise<WorkflowAnswer> {
  const caller = await openingCaller(request, (config) => config.workflows.recovery, ports);
  if (!caller.ok) return caller.error;
  const body = await readJson(request, recoverBody);
  if (!body.ok) return body.error;
  const number = body.value.pr_number;
  const refused = await notPermitted(caller.value, ports);
  if (refused !== null) return refused;
  const pull = await caller.value.github.client.getPull(number);
  if (!pull.ok) {
    if (pull.error.reason === "not-found")
      return problem(404, "not-found", `There is no pull request #${number} here.`);
    return githubUnavailable(pull.error, ports.clock.now());
  }
  if (pull.value.state !== "open")
    return problem(409, "closed", `Pull request #${number} is not open; reopen it first.`);
  const ask = { kind: "recovery", prNumber: number, headSha: pull.value.headSha } as const;
  return open(caller.value, ports, ask, body.value.keep_minutes);
}

export async function receiveValidate(request: Request, ports: WorkflowPorts): Promise<WorkflowAnswer> {
  const caller = await openingCaller(request, (config) => config.workflows.validation, ports);
  if (!caller.ok) return caller.error;
  const body = await readJson(request, validateBody);
  if (!body.ok) return body.error;
  const refused = await notPermitted(caller.value, ports);
  if (refused !== null) return refused;
  const { revision, check_head: checkHead = revision } = body.value;
  // Resolved before anything is prepared: a name that is no commit here must not become a request.
  for (const sha of new Set([revision, checkHead])) {
    const found = await caller.value.github.client.getCommit(sha);
    if (found.ok && found.value.sha === sha) continue;
    if (found.ok || found.error.reason === "not-found" || found.error.reason === "unprocessable") {
      return problem(422, "no-commit", `${sha} is not a commit of this repository.`);
    }
    return githubUnavailable(found.error, ports.clock.now());
  }
  return open(caller.value, ports, { kind: "validation", revision, headSha: checkHead }, body.value.keep_minutes);
}

/** Progress of the request that the calling run itself asked for. */
export async function receiveProgress(request: Request, id: string, ports: WorkflowPorts): Promise<WorkflowAnswer> {
  const caller = await originatingCaller(request, eitherWorkflow, ports);
  if (!caller.ok) return caller.error;
  const view = isRequestId(id) ? await caller.value.gate.dispatchedRequest(caller.value.claims.run_id, id) : null;
  if (view === null) return problem(404, "not-found", "This run asked for no such request.");
  return {
    status: 200,
    body: {
      request: view.id,
      state: view.state,
      step: view.step,
      headline: view.headline,
      verdict: view.verdict,
      reason: view.reason,
      detail: view.detail,
      conclusion: view.conclusion,
      check_published: view.published,
      pr_number: view.prNumber,
      head_sha: view.headSha,
      cost_micros: view.costMicros,
      opened_at: view.openedAt,
      concluded_at: view.concludedAt,
    },
  };
}

/** The file the token itself names, if it is one of the two; the caller's checks then compare it whole. */
const eitherWorkflow: AskingWorkflow = ({ workflows }, claims) =>
  claims.job_workflow_ref.startsWith(`${claims.repository}/${workflows.validation}@`)
    ? workflows.validation
    : workflows.recovery;

/** The dispatcher's role, by account id. The gate asks again, before preparing and inside the lock. */
async function notPermitted(caller: OpeningCaller, ports: WorkflowPorts): Promise<WorkflowAnswer | null> {
  const { actor, config, github } = caller;
  const permission = await mayCauseSpending(github.client, config, actor, "User");
  switch (permission.kind) {
    case "yes":
      return null;
    case "unknown":
      return unavailable(`The role of ${actor.login} could not be read: ${permission.why}`);
    case "no": {
      const roles = config.access.roles.join(" or ");
      ports.log({
        event: "workflow-api.not-permitted",
        repository: caller.repository.id,
        run: caller.run.id,
        actor: actor.id,
        role: permission.role,
      });
      return problem(403, "not-permitted", `${actor.login} needs the role ${roles} here and has ${permission.role}.`);
    }
    default:
      return unreachable(permission, "permission");
  }
}

/** Nobody is to believe that a pod will be kept when the word came too late for it. */
function keepFields(keep: KeepAnswer): Readonly<Record<string, string>> {
  return keep.kind === "noted" ? { keep: "noted" } : { keep: "refused", keep_why: keep.why };
}

async function open(
  caller: OpeningCaller,
  ports: WorkflowPorts,
  ask: DispatchedAsk,
  keep: number | undefined,
): Promise<WorkflowAnswer> {
  const { gate, repository, run, actor } = caller;
  const what: Dispatched = {
    repository,
    runId: run.id,
    actor,
    ask,
    ...(keep === undefined ? {} : { keepMinutes: keep }),
  };
  const answer = await gate.openDispatched(what);
  switch (answer.kind) {
    case "opened":
    case "repeated":
    case "joined":
      return {
        status: 202,
        body: {
          request: answer.requestId,
          state: answer.kind,
          check: caller.config.check.name,
          head_sha: ask.headSha,
          // Whoever waits for the check looks for this App's: anybody may give a check this name.
          app_id: ports.settings.ok ? ports.settings.value.appId : null,
          progress: `/v1/requests/${answer.requestId}`,
          ...(answer.kind === "joined" && answer.keep !== undefined ? keepFields(answer.keep) : {}),
        },
      };
    case "busy":
      return problem(
        409,
        "busy",
        `${answer.requestId} validates another revision for the same check; wait for it or name another check head.`,
      );
    case "read-only":
      return unavailable("This deployment runs an older version than its stored state.");
    default:
      return unreachable(answer, "dispatch answer");
  }
}
