/**
 * Who calls the workflow API: from the bearer token of a hosted job to a repository, its trusted configuration and a run.
 *
 * Two audiences. The deployment's own address opens requests, for the recovery and validation workflows of the default
 * branch alone. `<address>/v1/read-only` reads, for any job of the repository itself. A token of one is worthless for the
 * other. Every refusal is logged with its evidence and answered with one text.
 */
import { parseRepositoryConfig } from "../shared/config/load.ts";
import { CONFIG_PATH, type RepositoryConfig } from "../shared/config/schema.ts";
import type { Run } from "../shared/github/actions.ts";
import type { Repository } from "../shared/github/repository.ts";
import type { Actor, RepositoryRef } from "../shared/lifecycle/signal.ts";
import { readClaims, type Claims } from "../shared/oidc/claims.ts";
import { PUBLIC_TEXT, publicStatus, refusalFields, type Refusal } from "../shared/oidc/refusal.ts";
import {
  checkAge,
  checkEnvelope,
  checkMachine,
  checkOrigin,
  checkReadRun,
  checkRepository,
  checkRun,
  rememberUntil,
} from "../shared/oidc/verify.ts";
import { err, ok, type Result } from "../shared/result.ts";
import { githubUnavailable, problem, unavailable, type WorkflowAnswer } from "./workflow-answer.ts";
import type { WorkflowGate, WorkflowGitHub, WorkflowPorts } from "./workflow-ports.ts";

/** The audience of tokens that only read, below the deployment's own address. */
export const READ_ONLY_PATH = "/v1/read-only";

/** Everything known of a caller whose token was accepted. */
export interface Caller {
  readonly claims: Claims;
  readonly repository: RepositoryRef;
  readonly defaultBranch: string;
  readonly config: RepositoryConfig;
  readonly gate: WorkflowGate;
  readonly github: WorkflowGitHub;
}

export interface OpeningCaller extends Caller {
  readonly run: Run;
  /** Who dispatched the run: one account in the token and in both places of the run. */
  readonly actor: Actor;
}

export interface ReadingCaller extends Caller {
  readonly run: Run;
}

export type Called<C> = Promise<Result<C, WorkflowAnswer>>;

/** Which workflow's jobs may ask for this. */
export type AskingWorkflow = (config: RepositoryConfig, claims: Claims) => string;

/** A caller that may open a request: design section 7, every check in its order. */
export async function openingCaller(
  request: Request,
  workflow: AskingWorkflow,
  ports: WorkflowPorts,
): Called<OpeningCaller> {
  const refuse = refuser(request, ports);
  const known = await originatingCaller(request, workflow, ports);
  if (!known.ok) return known;
  const { claims, config, defaultBranch, github } = known.value;
  const run = await github.client.getRun(claims.run_id);
  if (!run.ok) {
    if (run.error.reason !== "not-found") return err(githubUnavailable(run.error, ports.clock.now()));
    return err(refuse({ reason: "run-unknown", runId: claims.run_id }, claims));
  }
  const refusal = checkRun(claims, run.value, { defaultBranch, workflowPath: workflow(config, claims) });
  if (refusal !== null) return err(refuse(refusal, claims));
  const actor = run.value.actor;
  if (actor === null) return err(unavailable("GitHub did not say who started this run."));
  return ok({ ...known.value, run: run.value, actor });
}

/** A caller whose token comes from exactly this workflow of the default branch. Enough to read what its run asked for. */
export async function originatingCaller(
  request: Request,
  workflow: AskingWorkflow,
  ports: WorkflowPorts,
): Called<Caller> {
  const refuse = refuser(request, ports);
  const known = await identified(request, "", ports);
  if (!known.ok) return known;
  const { claims, config, named } = known.value;
  const workflowPath = workflow(config, claims);
  const { prepare, execute } = config.workflows;
  if (workflowPath === prepare || workflowPath === execute) {
    return err(refuse({ reason: "workflow-never-opens", got: workflowPath }, claims));
  }
  const refusal = checkOrigin(claims, {
    fullName: named.fullName,
    ownerId: named.ownerId ?? null,
    defaultBranch: named.defaultBranch,
    workflowPath,
    maxAgeMs: config.limits.oidc_max_age * 1000,
    now: ports.clock.now(),
  });
  return refusal === null ? ok(known.value) : err(refuse(refusal, claims));
}

/** Events whose jobs run the repository's own code on its own word. */
const READING_EVENTS = new Set(["pull_request", "push", "merge_group", "workflow_dispatch", "schedule"]);

/** A job of the repository itself that asks about its own run. Any workflow, any branch; never a fork's run. */
export async function readingCaller(request: Request, ports: WorkflowPorts): Called<ReadingCaller> {
  const refuse = refuser(request, ports);
  const known = await identified(request, READ_ONLY_PATH, ports);
  if (!known.ok) return known;
  const { claims, config, named, github } = known.value;
  const now = ports.clock.now();
  const refusal =
    checkAge(claims, config.limits.oidc_max_age * 1000, now) ??
    checkRepository(claims, { fullName: named.fullName, ownerId: named.ownerId ?? null }) ??
    checkReadingEvent(claims) ??
    checkMachine(claims);
  if (refusal !== null) return err(refuse(refusal, claims));
  const run = await github.client.getRun(claims.run_id);
  if (!run.ok) {
    if (run.error.reason !== "not-found") return err(githubUnavailable(run.error, now));
    return err(refuse({ reason: "run-unknown", runId: claims.run_id }, claims));
  }
  const wrongRun = checkReadRun(claims, run.value);
  return wrongRun === null ? ok({ ...known.value, run: run.value }) : err(refuse(wrongRun, claims));
}

function checkReadingEvent(claims: Claims): Refusal | null {
  if (READING_EVENTS.has(claims.event_name)) return null;
  return { reason: "event", got: claims.event_name, expected: [...READING_EVENTS].join(" ") };
}

interface Identified extends Caller {
  readonly named: Repository;
}

/** Signature, envelope, the token's single use, and what the default branch says. */
async function identified(
  request: Request,
  audiencePath: "" | typeof READ_ONLY_PATH,
  ports: WorkflowPorts,
): Called<Identified> {
  const refuse = refuser(request, ports);
  if (!ports.settings.ok) return err(unavailable("This deployment is not configured; see /healthz."));
  const settings = ports.settings.value;
  if (settings.publicUrl === "")
    return err(unavailable("This deployment has no PUBLIC_URL, so no token can be meant for it."));

  const token = /^bearer ([\w.-]+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
  if (token === undefined) return err(refuse({ reason: "no-token" }, null));
  const signed = await ports.keys.verify(token);
  if (!signed.ok) {
    if (signed.error.kind === "refused") return err(refuse(signed.error.refusal, null));
    ports.log({ event: "workflow-api.keys-unavailable", why: signed.error.why });
    return err(unavailable("The token issuer's keys cannot be read."));
  }
  const read = readClaims(signed.value);
  if (!read.ok) return err(refuse({ reason: "malformed", what: `claim ${read.claim}` }, null));
  const { claims } = read;
  const envelope = checkEnvelope(claims, {
    issuer: settings.oidcIssuerUrl,
    audience: `${settings.publicUrl}${audiencePath}`,
    repositories: settings.allowedRepositories,
    now: ports.clock.now(),
  });
  if (envelope !== null) return err(refuse(envelope, claims));
  const gate = ports.gate(claims.repository_id);
  switch (await gate.useToken(claims.jti, rememberUntil(claims))) {
    case "spent":
      return err(refuse({ reason: "replayed", jti: claims.jti }, claims));
    case "read-only":
      return err(unavailable("This deployment runs an older version than its stored state."));
    case "fresh":
      return trusted(claims, gate, ports, refuse);
  }
}

/** The repository as GitHub names it now, and the configuration at the head of its default branch. */
async function trusted(claims: Claims, gate: WorkflowGate, ports: WorkflowPorts, refuse: Refuse): Called<Identified> {
  const [owner = "", name = ""] = claims.repository.split("/");
  const repository: RepositoryRef = { id: claims.repository_id, owner, name };
  const github = ports.github(repository);
  const now = ports.clock.now();
  const named = await github.client.getRepository();
  if (!named.ok) return err(githubUnavailable(named.error, now));
  if (named.value.id !== claims.repository_id) {
    return err(refuse({ reason: "repository", got: named.value.id, expected: claims.repository_id }, claims));
  }
  const { defaultBranch } = named.value;
  const head = await github.client.getBranchHead(defaultBranch);
  if (!head.ok) return err(githubUnavailable(head.error, now));
  const file = await github.client.getFile(CONFIG_PATH, head.value);
  if (!file.ok && file.error.reason !== "not-found") return err(githubUnavailable(file.error, now));
  const config = file.ok ? parseRepositoryConfig(file.value.text) : null;
  if (config === null || !config.ok) {
    const what = config === null ? "is missing" : "is not valid";
    return err(problem(422, "configuration", `${CONFIG_PATH} ${what} on ${defaultBranch}; run gpu-gate config check.`));
  }
  return ok({ claims, repository, defaultBranch, config: config.value, gate, github, named: named.value });
}

type Refuse = (refusal: Refusal, claims: Claims | null) => WorkflowAnswer;

/** Says why in the log, and nothing to the caller. */
function refuser(request: Request, ports: WorkflowPorts): Refuse {
  return (refusal, claims) => {
    ports.log({
      event: "workflow-api.refused",
      path: new URL(request.url).pathname.slice(0, 100),
      ...refusalFields(refusal),
      ...(claims === null
        ? {}
        : { tokenRepository: claims.repository_id, tokenRun: claims.run_id, tokenActor: claims.actor_id }),
    });
    return problem(publicStatus(refusal), "token", PUBLIC_TEXT);
  };
}
