/**
 * What the workflow API needs from its surroundings, and the same made from the platform's bindings.
 */
import type { Dispatched, DispatchedAnswer, TokenUse } from "../durable-objects/gate/dispatched.ts";
import type { RequestView } from "../durable-objects/gate/view.ts";
import { githubApp, githubClientFor, logLine, platformFetch } from "../durable-objects/platform.ts";
import { readSettings, type Settings } from "../durable-objects/settings.ts";
import type { GitHubClient } from "../shared/github/client.ts";
import { describeFailure } from "../shared/github/failure.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import { createTokenKeys, type TokenKeys } from "../shared/oidc/jwks.ts";
import type { GetPage } from "../shared/policy/read-runners.ts";
import { systemClock, type Clock, type Millis } from "../shared/ports.ts";
import type { Result } from "../shared/result.ts";
import type { LogEntry } from "./ports.ts";

/** The gate of one repository, as far as hosted jobs reach it. A failure is thrown. */
export interface WorkflowGate {
  useToken(jti: string, expiresAt: Millis): Promise<TokenUse>;
  openDispatched(what: Dispatched): Promise<DispatchedAnswer>;
  dispatchedRequest(runId: string, requestId: string): Promise<RequestView | null>;
  rentedRunnerIds(): Promise<readonly string[]>;
}

export interface WorkflowPorts {
  readonly settings: Result<Settings, readonly string[]>;
  /** Keys of the issuer of the settings. */
  readonly keys: TokenKeys;
  readonly gate: (repositoryId: string) => WorkflowGate;
  readonly github: (repository: RepositoryRef) => WorkflowGitHub;
  readonly clock: Clock;
  readonly log: (entry: LogEntry) => void;
}

export interface WorkflowGitHub {
  readonly client: GitHubClient;
  /** A plain read with the App's own permissions, for the runner lists. */
  readonly get: GetPage;
}

const made = new WeakMap<Env, WorkflowPorts>();

/** Once per environment object, so that the issuer's keys are fetched once per isolate and not once per call. */
export function platformWorkflowPorts(env: Env): WorkflowPorts {
  const known = made.get(env);
  if (known !== undefined) return known;
  const ports = makePorts(env);
  made.set(env, ports);
  return ports;
}

function makePorts(env: Env): WorkflowPorts {
  const settings = readSettings(env);
  const issuer = settings.ok ? settings.value.oidcIssuerUrl : "";
  return {
    settings,
    keys: createTokenKeys(issuer, { fetch: platformFetch, clock: systemClock }),
    gate: (repositoryId) => {
      const stub = env.REPOSITORY_GATE.getByName(repositoryId);
      return {
        useToken: async (jti, expiresAt) => stub.useToken(jti, expiresAt),
        openDispatched: async (what) => stub.openDispatched(what),
        dispatchedRequest: async (runId, requestId) => stub.dispatchedRequest(runId, requestId),
        rentedRunnerIds: async () => stub.rentedRunnerIds(),
      };
    },
    github: (repository) => {
      if (!settings.ok) throw new Error("the deployment's settings cannot be used; see /healthz");
      return {
        client: githubClientFor(settings.value)(repository, null, { kind: "repository" }),
        get: getPageFor(settings.value, repository),
      };
    },
    clock: systemClock,
    log: logLine,
  };
}

function getPageFor(settings: Settings, repository: RepositoryRef): GetPage {
  return async (path) => {
    const app = githubApp(settings);
    if (app === null) return { kind: "failure", what: "the App's private key cannot be used" };
    const handle = { ...repository, installationId: null };
    const answer = await app.asRepository(handle, { operation: "probeRunners", method: "GET", path });
    if (answer.ok) return { kind: "answer", status: answer.value.status, body: answer.value.text };
    return { kind: "failure", what: describeFailure(answer.error) };
  };
}
