/**
 * A repository with lanes on its own machines, in the world of world.ts: how its probe is asked both ways (the command in a
 * hosted job with a token of the repository's own; the workflow API with the App's rights), and what its aggregator says.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Hono } from "hono";
import { main } from "../../cli/main.ts";
import { rentedRunnerIds } from "../../durable-objects/gate/dispatched.ts";
import { readSettings } from "../../durable-objects/settings.ts";
import type { RepositoryControl } from "../../local/github/index.ts";
import { createGitHubApp } from "../../shared/github/app.ts";
import { createGitHubClient } from "../../shared/github/client.ts";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";
import { systemClock, type FetchLike } from "../../shared/ports.ts";
import { mountWorkflowApi } from "../../worker/workflow-api.ts";
import type { WorkflowPorts } from "../../worker/workflow-ports.ts";
import { appJwt } from "../local-github/harness.ts";
import { claims, GATE_URL, ISSUER, jwk, KEY, READ_ONLY, sign } from "../oidc/harness.ts";
import { REPOSITORY_ID, startGateWorld, type GateWorld } from "./world.ts";

const CI = ".github/workflows/ci.yml";
export const RUNBOOK = "https://example.org/runbook";
export const LABELS = ["self-hosted", "linux", "gpu-full"];
export const AGGREGATE = "Required checks";

const SWITCHES: Readonly<Record<string, string>> = {
  coverage_gpu: "GPU_COVERAGE_ENABLED",
  anything: "ANYTHING_ENABLED",
};

export const CONFIG = `version: 1
paths:
  docs:
    prefixes: [docs/]
lanes:
  coverage_gpu:
    checks: [Coverage GPU]
    own:
      runs_on: [self-hosted, linux, gpu-full]
      switch: GPU_COVERAGE_ENABLED
      runbook: ${RUNBOOK}
      probe: Probe GPU Full Runner
  anything:
    own: { runs_on: [self-hosted], switch: ANYTHING_ENABLED }
required_checks:
  - { name: Docs }
  - { name: Unit tests, report: must, app_id: "15368" }
  - { name: Coverage GPU }
aggregator: { name: ${AGGREGATE}, registration_grace: 1.5, timeout: 60 }
limits: { reconcile: 60 }
`;

export interface LaneWorld extends GateWorld {
  readonly repository: RepositoryControl;
  /** Sets or unsets a repository variable. */
  setSwitch(name: string, value: string | null): void;
  /** Asks both ways; each answers in the same words. */
  readonly ways: readonly Way[];
  /** Paths of the runner lists that were asked since `from` requests of GitHub's books. */
  asked(from: number): readonly string[];
  /** Every check run of the aggregator on a head, oldest first. */
  aggregates(head: string): ReturnType<RepositoryControl["checkRuns"]>;
  /** Waits until the newest one is as described; fails with what it is instead. */
  says(head: string, what: string, ready: (run: Said) => boolean): Promise<Said>;
  /** A pull request that changes documentation alone: nothing is rented for it. */
  open(input?: { readonly draft?: boolean; readonly branch?: string }): {
    readonly number: number;
    readonly head: string;
  };
  /** The gate's comparison with GitHub, now. */
  reconcile(): Promise<void>;
}

export type Said = ReturnType<RepositoryControl["checkRuns"]>[number];

export interface ProbeAnswer {
  readonly enabled: boolean;
  readonly registered: boolean;
  readonly available: boolean;
  /** The probe's own job ends red. */
  readonly red: boolean;
  readonly code: string;
  /** What a person reads when it is red; empty otherwise. */
  readonly message: string;
}

export interface Way {
  readonly name: string;
  readonly ask: (lane: string) => Promise<ProbeAnswer>;
}

const PATIENCE_MS = 20_000;

export async function startLaneWorld(config = CONFIG): Promise<LaneWorld> {
  const world = await startGateWorld();
  const { github, gate } = world;
  const repository = github.createRepository({
    owner: "acme",
    name: "tensors",
    id: Number(REPOSITORY_ID),
    files: { "docs/guide.md": "# guide\n", ".github/gpu-gate.yml": config, [CI]: "name: CI\n" },
  });
  repository.addCollaborator("mira", "admin");
  // A run that asks for its lanes is under way while it asks.
  github.setWorkflowScript(CI, {
    name: "CI",
    on: ["pull_request"],
    plan: () => ({ jobs: [{ name: "plan", steps: [{ name: "Probe", durationMs: 600_000 }] }] }),
  });
  const switches = new Map<string, string>();
  let pulls = 0;
  const open: LaneWorld["open"] = ({ draft = false, branch } = {}) => {
    pulls += 1;
    const files = { "docs/guide.md": `# guide ${pulls}\n` };
    const change = { author: "mira", files, draft, ...(branch === undefined ? {} : { branch }) };
    const { number, headSha } = repository.openPullRequest(change);
    return { number, head: headSha };
  };
  const aggregates = (head: string) => repository.checkRuns(head).filter((run) => run.name === AGGREGATE);
  return {
    ...world,
    repository,
    setSwitch(name, value) {
      if (value === null) {
        switches.delete(name);
        repository.deleteVariable(name);
      } else {
        switches.set(name, value);
        repository.setVariable(name, value);
      }
    },
    ways: waysOf(world, config, repository, (name) => switches.get(name)),
    asked: (from) =>
      github.books.requests
        .slice(from)
        .filter((request) => request.path.includes("/actions/runners"))
        .map((request) => `${request.path}?${request.query}`),
    aggregates,
    async says(head, what, ready) {
      const limit = Date.now() + PATIENCE_MS;
      for (;;) {
        const run = aggregates(head).at(-1);
        if (run !== undefined && ready(run)) return run;
        if (Date.now() > limit) throw new Error(`waited for ${what}; the check is ${JSON.stringify(told(run))}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    open,
    async reconcile() {
      const before = gate.store.counters()["reconcile.done"] ?? 0;
      const limit = Date.now() + PATIENCE_MS;
      gate.store.setMeta("reconciled_at", "0");
      while ((gate.store.counters()["reconcile.done"] ?? 0) === before) {
        if (Date.now() > limit) throw new Error("the gate does not compare itself with GitHub");
        gate.tick();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
  };
}

function told(run: Said | undefined) {
  return run === undefined
    ? null
    : { status: run.status, conclusion: run.conclusion, title: run.title, summary: run.summary };
}

/** Both ways of asking in any world; `variable` gives a repository variable's value. */
export function waysOf(
  world: GateWorld,
  config: string,
  repository: RepositoryControl,
  variable: (name: string) => string | undefined,
): readonly Way[] {
  return [
    {
      name: "gpu-gate probe",
      // A variable that is not set is empty in a workflow.
      ask: (lane) => askCommand(world, config, repository, lane, variable(SWITCHES[lane] ?? "") ?? ""),
    },
    { name: "POST /v1/probe", ask: (lane) => askApi(world, repository, lane) },
  ];
}

/** As the composite action calls it: the switch from the workflow's variables, a token that may read and nothing more. */
async function askCommand(
  world: GateWorld,
  config: string,
  repository: RepositoryControl,
  lane: string,
  switchValue: string,
): Promise<ProbeAnswer> {
  const { github } = world;
  const folder = mkdtempSync(join(tmpdir(), "gpu-gate-probe-"));
  const output = join(folder, "output");
  const file = join(folder, "gate.yml");
  writeFileSync(file, config);
  writeFileSync(output, "");
  let stdout = "";
  let stderr = "";
  const code = await main(["probe", "--lane", lane, "--config", file, "--json"], {
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
    stdin: () => Promise.resolve(new Uint8Array()),
    env: {
      LANE_SWITCH: switchValue,
      GPU_GATE_TOKEN: await narrowToken(world, { administration: "read" }),
      GITHUB_API_URL: github.url,
      GITHUB_REPOSITORY: repository.fullName,
      GITHUB_OUTPUT: output,
    },
    cwd: folder,
    fetch: (input, init) => fetch(input, init),
    now: () => Date.now(),
  });
  const outputs = new Map(
    readFileSync(output, "utf8")
      .trim()
      .split("\n")
      .map((line) => line.split("=") as [string, string]),
  );
  rmSync(folder, { recursive: true });
  const said = JSON.parse(stdout) as { code: string };
  const [enabled, registered, available] = ["enabled", "registered", "available"].map(
    (name) => outputs.get(name) === "true",
  );
  return {
    enabled: enabled ?? false,
    registered: registered ?? false,
    available: available ?? false,
    red: code !== 0,
    code: said.code,
    message: stderr,
  };
}

async function narrowToken({ github }: GateWorld, permissions: Readonly<Record<string, string>>): Promise<string> {
  const { id } = github.installation("acme");
  const answer = await fetch(`${github.url}/app/installations/${id}/access_tokens`, {
    method: "POST",
    headers: { authorization: `Bearer ${appJwt(github)}`, "content-type": "application/json", "user-agent": "test" },
    body: JSON.stringify({ permissions }),
  });
  return (await answer.json<{ token: string }>()).token;
}

/** The route itself with the real gate and the App's real client; only the token's issuer is the test's own. */
async function askApi(world: GateWorld, repository: RepositoryControl, lane: string): Promise<ProbeAnswer> {
  const { github, gate } = world;
  const run = repository.runs(CI).at(-1);
  if (run === undefined) throw new Error("a run has to ask: open a pull request first");
  const straight: FetchLike = (input, init) => fetch(input, init);
  const made = createGitHubApp(
    { appId: github.appId, privateKey: github.privateKeyPem, apiUrl: github.url },
    { fetch: straight, clock: systemClock },
  );
  if (!made.ok) throw new Error("the local App key must be usable");
  const [owner = "", name = ""] = repository.fullName.split("/");
  const handle = { id: REPOSITORY_ID, owner, name, installationId: null };
  const client = createGitHubClient({ app: made.value, repository: handle, runners: { kind: "repository" } });
  const ports: WorkflowPorts = {
    settings: readSettings({
      DEPLOYMENT: "test",
      GITHUB_APP_ID: github.appId,
      GITHUB_APP_PRIVATE_KEY: "unused",
      GITHUB_WEBHOOK_SECRET: "unused",
      GITHUB_ALLOWED_REPOSITORIES: REPOSITORY_ID,
      GITHUB_API_URL: github.url,
      GITHUB_WEB_URL: github.url,
      RUNPOD_API_KEY: "unused",
      RUNPOD_API_URL: world.runpod.url,
      RUNPOD_GRAPHQL_URL: world.runpod.graphqlUrl,
      OIDC_ISSUER_URL: ISSUER,
      IMAGE_REGISTRY_URL: world.runpod.registryUrl,
      PUBLIC_URL: GATE_URL,
      STATUS_PAGE: "off",
      DEPLOYMENT_LIMITS: "",
    }),
    keys: createTokenKeys(ISSUER, {
      clock: systemClock,
      fetch: () => Promise.resolve(Response.json({ keys: [jwk(KEY)] })),
    }),
    gate: () => ({
      useToken: async (jti, expiresAt) => gate.useToken(jti, expiresAt),
      openDispatched: async (what) => gate.openDispatched(what),
      dispatchedRequest: async (runId, requestId) => gate.dispatchedRequest(runId, requestId),
      rentedRunnerIds: async () => rentedRunnerIds(gate.store),
    }),
    github: () => ({ client, get: (path) => client.read(path) }),
    clock: systemClock,
    log: (entry) => void world.log.push(entry),
  };
  const app = new Hono<{ Bindings: Env }>();
  mountWorkflowApi(app, () => ports);
  const seconds = Math.floor(Date.now() / 1000);
  const ref = "refs/pull/1/merge";
  const workflow = `${repository.fullName}/${CI}@${ref}`;
  const token = sign(
    claims({
      aud: READ_ONLY,
      iat: seconds - 10,
      nbf: seconds - 10,
      exp: seconds + 290,
      repository: repository.fullName,
      repository_owner: owner,
      repository_owner_id: String(github.user(owner).id),
      event_name: "pull_request",
      ref,
      job_workflow_ref: workflow,
      workflow_ref: workflow,
      run_id: String(run.id),
    }),
  );
  const answer = await app.request("/v1/probe", {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ lane }),
  });
  const said = await answer.json<Record<string, unknown>>();
  if (answer.status !== 200) throw new Error(`the route answered ${answer.status}: ${JSON.stringify(said)}`);
  return {
    enabled: said["enabled"] === true,
    registered: said["registered"] === true,
    available: said["available"] === true,
    red: said["fail"] === true,
    code: String(said["code"]),
    message: said["fail"] === true ? `${String(said["message"])} Runbook: ${String(said["runbook"])}` : "",
  };
}
