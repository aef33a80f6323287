/**
 * `gpu-gate recover --wait` and `validate --wait` from the maintainer's terminal to the verdict: the real command line, the
 * local GitHub's dispatched run, its hosted job with an identity token, the workflow API, the gate, a rented pod, the check.
 *
 * What stands in: the token issuer (the local GitHub has none) is a key of this file, and the hosted job's one step is the
 * call that the shipped workflow makes with curl (test/workflows holds that against the same body and address).
 */
import { generateKeyPairSync } from "node:crypto";
import { Hono } from "hono";
import { afterEach, describe, expect, it } from "vitest";
import { readSettings } from "../../durable-objects/settings.ts";
import { rentedRunnerIds } from "../../durable-objects/gate/dispatched.ts";
import type { WorkflowScript } from "../../local/github/index.ts";
import { BROKEN_TESTS } from "../../local/world/workflows.ts";
import { createGitHubApp } from "../../shared/github/app.ts";
import { createGitHubClient } from "../../shared/github/client.ts";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";
import { systemClock } from "../../shared/ports.ts";
import { mountWorkflowApi } from "../../worker/workflow-api.ts";
import type { WorkflowPorts } from "../../worker/workflow-ports.ts";
import { CONFIG, startLife, type Life } from "../gate/life.ts";
import { gpuGate } from "../hosted/io.ts";
import { jwk, sign, type Json, type SigningKey } from "../oidc/harness.ts";

const RECOVERY = ".github/workflows/gpu-gate-recovery.yml";
const VALIDATION = ".github/workflows/gpu-gate-validation.yml";
const GATE_URL = "https://gate.test";
const ISSUER = "https://issuer.test";
const KEY: SigningKey = { kid: "key-1", ...generateKeyPairSync("rsa", { modulusLength: 2048 }) };

const lives: Life[] = [];
afterEach(async () => {
  for (const one of lives.splice(0)) await one.close();
});

interface Terminal {
  readonly life: Life;
  /** The command line in the name of a person; `by` is whom GitHub knows by that person's token. */
  readonly run: (by: string, ...args: string[]) => ReturnType<typeof gpuGate>;
  readonly log: Json[];
}

async function open(): Promise<Terminal> {
  const life = await startLife({ config: CONFIG.replace("version: 1\n", "version: 1\nstart: label\n") });
  lives.push(life);
  const { github, repository, gate } = life;
  repository.commit({ files: { [RECOVERY]: "name: GPU gate recover\n", [VALIDATION]: "name: GPU gate validate\n" } });
  repository.addCollaborator("walt", "write");
  const made = createGitHubApp(
    { appId: github.appId, privateKey: github.privateKeyPem, apiUrl: github.url },
    { fetch: (input, init) => fetch(input, init), clock: systemClock },
  );
  if (!made.ok) throw new Error("the local App key must be usable");
  const app = made.value;
  const log: Json[] = [];
  const ports: WorkflowPorts = {
    settings: readSettings({
      DEPLOYMENT: "test",
      GITHUB_APP_ID: github.appId,
      GITHUB_APP_PRIVATE_KEY: "unused",
      GITHUB_WEBHOOK_SECRET: "unused",
      GITHUB_ALLOWED_REPOSITORIES: "101",
      GITHUB_API_URL: github.url,
      GITHUB_WEB_URL: github.url,
      RUNPOD_API_KEY: "unused",
      RUNPOD_API_URL: "https://runpod.test",
      RUNPOD_GRAPHQL_URL: "https://runpod.test/graphql",
      OIDC_ISSUER_URL: ISSUER,
      IMAGE_REGISTRY_URL: "https://registry.test",
      PUBLIC_URL: GATE_URL,
      STATUS_PAGE: "off",
      DEPLOYMENT_LIMITS: "",
    }),
    keys: createTokenKeys(ISSUER, { clock: systemClock, fetch: async () => Response.json({ keys: [jwk(KEY)] }) }),
    gate: () => ({
      useToken: async (jti, expiresAt) => gate.useToken(jti, expiresAt),
      openDispatched: async (what) => gate.openDispatched(what),
      dispatchedRequest: async (runId, requestId) => gate.dispatchedRequest(runId, requestId),
      rentedRunnerIds: async () => rentedRunnerIds(gate.store),
    }),
    github: (ref) => ({
      client: createGitHubClient({
        app,
        repository: { ...ref, installationId: null },
        runners: { kind: "repository" },
      }),
      get: async () => ({ kind: "failure", what: "not asked here" }),
    }),
    clock: systemClock,
    log: (entry) => void log.push(entry),
  };
  const api = new Hono<{ Bindings: Env }>();
  mountWorkflowApi(api, () => ports);

  /** The hosted job: GitHub gives it a token that says what GitHub knows of the run. */
  const asks = (
    path: string,
    route: string,
    body: (inputs: Readonly<Record<string, string>>) => Json,
  ): WorkflowScript => ({
    name: route,
    on: ["workflow_dispatch"],
    runName: ({ inputs }) =>
      route === "recover"
        ? `gpu-gate recover pull request ${inputs["pr_number"] ?? ""}`
        : `gpu-gate validate ${inputs["revision"] ?? ""}`,
    plan: (context) => ({
      jobs: [
        {
          name: "Ask",
          steps: [
            {
              name: "Ask the control plane",
              perform: async (job) => {
                const seconds = Math.floor(Date.now() / 1000);
                const workflow = `acme/tensors/${path}@refs/heads/main`;
                const token = sign(
                  {
                    iss: ISSUER,
                    aud: GATE_URL,
                    iat: seconds,
                    nbf: seconds,
                    exp: seconds + 300,
                    jti: `jti-of-run-${job.runId}-${job.attempt}`,
                    repository: "acme/tensors",
                    repository_id: "101",
                    repository_owner_id: String(github.user("acme").id),
                    // A re-run's token still names who began the run.
                    actor_id: String(github.user(context.actor).id),
                    event_name: "workflow_dispatch",
                    ref: context.ref,
                    sha: context.sha,
                    job_workflow_ref: workflow,
                    workflow_ref: workflow,
                    run_id: String(job.runId),
                    run_attempt: String(job.attempt),
                    runner_environment: "github-hosted",
                  },
                  { key: KEY },
                );
                const answer = await api.request(`/v1/${route}`, {
                  method: "POST",
                  headers: { authorization: `Bearer ${token}` },
                  body: JSON.stringify(body(context.inputs)),
                });
                const said = await answer.json<Json>();
                if (answer.status !== 202) return "failure";
                const message = `${String(said["request"])} of App ${String(said["app_id"])} at ${String(said["head_sha"])}`;
                job.annotate({ title: "gpu-gate request", message });
                return "success";
              },
            },
          ],
        },
      ],
    }),
  });
  github.setWorkflowScript(
    RECOVERY,
    asks(RECOVERY, "recover", (inputs) => ({ pr_number: Number(inputs["pr_number"]) })),
  );
  github.setWorkflowScript(
    VALIDATION,
    asks(VALIDATION, "validate", ({ revision = "", check_head: checkHead = "" }) =>
      checkHead === "" ? { revision } : { revision, check_head: checkHead },
    ),
  );

  return {
    life,
    log,
    run: (by, ...args) =>
      gpuGate([...args, "--poll", "0.1", "--timeout", "90"], {
        env: { GITHUB_API_URL: github.url, GITHUB_REPOSITORY: "acme/tensors", GH_TOKEN: `token-of-${by}` },
        now: () => Date.now(),
        // The local GitHub knows no personal tokens: reads go through the installation's, the dispatch is the person's.
        fetch: async (input, init) => {
          const path = input.slice(github.url.length);
          const dispatched = /^\/repos\/acme\/tensors\/actions\/workflows\/([^/]+)\/dispatches$/.exec(path)?.[1];
          if (dispatched !== undefined) {
            const body = typeof init?.body === "string" ? init.body : "";
            const { inputs, ref } = JSON.parse(body) as { inputs: Record<string, string>; ref: string };
            if (ref !== "main") throw new Error(`dispatched at ${ref}`);
            const id = repository.dispatchWorkflow(`.github/workflows/${dispatched}`, by, inputs);
            return Response.json({ workflow_run_id: id });
          }
          const handle = { id: "101", owner: "acme", name: "tensors", installationId: null };
          const answer = await app.asRepository(handle, { operation: "asPerson", method: "GET", path });
          if (!answer.ok) return Response.json({ message: answer.error.reason }, { status: 404 });
          return new Response(answer.value.text, { status: 200 });
        },
      }),
  };
}

const opened = (life: Life) => life.gate.store.recentRequests(50);
const byKind = (life: Life, kind: string) => opened(life).filter((request) => request.kind === kind);

describe("gpu-gate recover --wait, from the terminal to the verdict", () => {
  it("tests the head on a GPU in the maintainer's name, and ends green with the check", async () => {
    const { life, run, log } = await open();
    const head = life.openCode("matmul");
    // `start: label`: the pull request's own request only says that somebody has to want it.
    expect((await life.concluded(head)).state).toMatchObject({ verdict: { kind: "awaiting-approval" } });
    const answer = await run("mira", "recover", "1", "--wait");
    expect(answer.err).toBe("");
    expect(answer.code).toBe(0);
    expect(answer.out).toMatch(/request r2[a-z]{5}, check on /);
    expect(answer.out).toContain("queued: Looking at the change");
    expect(answer.out).toContain("success: Passed: 42 GPU tests");
    const [request] = byKind(life, "recovery");
    expect(request).toMatchObject({
      prNumber: 1,
      headSha: head,
      actor: { login: "mira" },
      admission: { testedSha: head },
    });
    expect(log).toEqual([]);
    expect(life.runpod.pods().every((pod) => pod.releasedAtMs !== null)).toBe(true);
  });

  it("ends with 1 when the tests fail, and names them", async () => {
    const { life, run } = await open();
    await life.concluded(life.openCode("sum", { [BROKEN_TESTS]: "yes\n" }));
    const answer = await run("mira", "recover", "1", "--wait");
    expect(answer.code).toBe(1);
    expect(answer.out).toContain("failure: GPU tests failed");
    expect(answer.out).toContain("conv2d_matches_reference");
  });

  it("a writer's own recovery is refused: the run fails, nothing is opened, the reason is in the log", async () => {
    const { life, run, log } = await open();
    await life.concluded(life.openCode("matmul"));
    const answer = await run("walt", "recover", "1", "--wait");
    expect(answer.code).toBe(1);
    expect(answer.err).toContain("the run ended as failure");
    expect(byKind(life, "recovery")).toEqual([]);
    expect(log).toMatchObject([{ event: "workflow-api.not-permitted", role: "write" }]);
  });

  it("a writer's re-run of a maintainer's recovery opens nothing", async () => {
    const { life, run, log } = await open();
    await life.concluded(life.openCode("docs"));
    expect((await run("mira", "recover", "1", "--wait")).code).toBe(0);
    const recovery = life.repository.runs(RECOVERY)[0];
    if (recovery === undefined) throw new Error("the recovery run is missing");
    const before = opened(life).length;
    life.repository.rerunWorkflow(recovery.id, "walt");
    const refused = () => log.find((entry) => entry["event"] === "workflow-api.refused");
    for (const limit = Date.now() + 60_000; refused() === undefined && Date.now() < limit;) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(refused()).toMatchObject({ reason: "run-attempt", got: "2" });
    expect(opened(life)).toHaveLength(before);
  });
});

describe("gpu-gate validate --wait", () => {
  it("tests a merged commit and puts the check on it; no pull request can make it obsolete", async () => {
    const { life, run } = await open();
    await life.concluded(life.openCode("matmul"));
    const merged = life.repository.merge(1, "mira");
    const answer = await run("mira", "validate", "--revision", merged, "--wait");
    expect([answer.code, answer.err]).toEqual([0, ""]);
    const [request] = byKind(life, "validation");
    expect(request).toMatchObject({
      prNumber: null,
      headSha: merged,
      revision: merged,
      admission: { testedSha: merged },
    });
    const checks = life.repository.checkRuns(merged).filter((check) => check.name === "CI GPU gate");
    expect(checks.map((check) => check.conclusion)).toEqual(["success"]);
  });

  it("refuses a fork's commit with a concluded check and rents nothing", async () => {
    const { life, run } = await open();
    const fork = life.repository.openPullRequest({
      author: "eve",
      title: "miner",
      files: { "src/miner.rs": "fn f() {}\n" },
      fork: true,
    });
    const answer = await run("mira", "validate", "--revision", fork.headSha, "--wait");
    expect(answer.code).toBe(1);
    expect(answer.out).toContain("revision-not-merged");
    expect(life.runpod.pods()).toEqual([]);
  });
});
