/**
 * The shipped files that people and clocks start, run by the local GitHub: recovery and validation against a control plane
 * that checks their token, sweep and runner watch by the clock, with the control plane down.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { WorkflowRun } from "../../local/github/model.ts";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod } from "../../local/runpod/types.ts";
import { bundleCli } from "../../scripts/bundle-cli.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { openBench, type Bench } from "../local-github/harness.ts";
import { jobOf, ofRun } from "../local-github/workflows.ts";
import { ROOT, SHA, shippedText } from "./shipped.ts";

const FILES = ["recovery", "validation", "sweep", "runner-watch"].map((name) => `gpu-gate-${name}.yml`);
const path = (file: string): string => `.github/workflows/${file}`;
const HOUR = 3_600_000;

interface Asked {
  readonly path: string;
  readonly body: unknown;
  readonly claims: Readonly<Record<string, unknown>>;
}

let bench: Bench;
let folder: string;
let runpod: LocalRunPod;
let plane: Server;
let registry: Server;
const asked: Asked[] = [];
let runnerDigest = "a";
/** The local GitHub's clock; moved to the minute of a schedule. */
let now = Date.parse("2026-11-30T10:20:00Z");

async function serve(
  answer: (path: string, body: string, authorization: string) => Promise<[number, string]>,
  head = false,
): Promise<[Server, string]> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      void answer(request.url ?? "", Buffer.concat(chunks).toString(), request.headers.authorization ?? "").then(
        ([status, text]) => {
          if (head) response.writeHead(status, { "docker-content-digest": text }).end();
          else response.writeHead(status, { "content-type": "application/json" }).end(text);
        },
        (problem: unknown) => response.writeHead(500).end(String(problem)),
      );
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return [server, `http://127.0.0.1:${address !== null && typeof address === "object" ? address.port : 0}`];
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpu-gate-asked-"));
  const tool = join(folder, "gpu-gate.mjs");
  await bundleCli(tool);
  buildImage({ imageDir: join(folder, "image"), runScript: join(ROOT, "local/runner/run.sh") });
  runpod = await startLocalRunPod({
    apiKey: "rpa_sweep",
    stateDir: join(folder, "pods"),
    imageDir: join(folder, "image"),
  });
  bench = await openBench({ hosted: { folder: join(folder, "machines") }, clock: { now: () => now } });
  let planeUrl = "";
  [plane, planeUrl] = await serve(async (url, body, authorization) => {
    if (url === "/healthz") return [200, "{}"];
    const keys = createRemoteJWKSet(new URL(`${bench.github.url}/.well-known/jwks`));
    const audience = { issuer: bench.github.url, audience: planeUrl, currentDate: new Date(now) };
    const { payload } = await jwtVerify(authorization.replace("Bearer ", ""), keys, audience);
    asked.push({ path: url, body: JSON.parse(body), claims: payload });
    return [202, JSON.stringify({ request: "r7", app_id: "1", head_sha: SHA })];
  });
  let registryUrl = "";
  [registry, registryUrl] = await serve((url) => {
    const tag = url.split("/").at(-1) ?? "";
    const known: Readonly<Record<string, string>> = { latest: runnerDigest, "2.337.0": "b", "2.336.0": "a" };
    const letter = known[tag];
    return Promise.resolve(letter === undefined ? [404, ""] : [200, `sha256:${letter.repeat(64)}`]);
  }, true);
  bench.repo.setVariable("GPU_GATE_URL", planeUrl);
  bench.repo.setVariable("GPU_GATE_RUNPOD_API_URL", runpod.url);
  bench.repo.setVariable("GPU_GATE_IMAGE_REGISTRY_URL", registryUrl);
  bench.repo.setSecret("RUNPOD_API_KEY", "rpa_sweep", "gpu-gate-sweep");
  bench.repo.limitEnvironment("gpu-gate-sweep", ["main"]);
  const runner = bench.github.createRepository({ owner: "actions", name: "runner", organization: true });
  runner.publishRelease("v2.336.0", { at: now - 60 * 24 * HOUR });
  runner.publishRelease("v2.337.0", { at: now - 30 * 24 * HOUR });
  const files = Object.fromEntries(FILES.map((file) => [path(file), shippedText(file)]));
  bench.repo.commit({ files: { ...files, ".github/gpu-gate/gpu-gate.mjs": readFileSync(tool, "utf8") } });
});

afterAll(async () => {
  await bench.close();
  await runpod.close();
  for (const server of [plane, registry]) server.close().closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

async function ended(id: number): Promise<WorkflowRun> {
  await bench.hook("workflow_run", "completed", ofRun(id));
  const run = bench.repo.runs().find((one) => one.id === id);
  if (run === undefined) throw new Error("no such run");
  return run;
}

const dispatch = (file: string, inputs: Readonly<Record<string, string>>): Promise<WorkflowRun> =>
  ended(bench.repo.dispatchWorkflow(path(file), "mira", inputs));

const clock = (time: string): Promise<WorkflowRun> => {
  now = Date.parse(time);
  const ids = bench.github.runSchedules();
  expect(ids).toHaveLength(1);
  return ended(ids[0] ?? 0);
};

describe.skipIf(!existsSync("/usr/bin/jq"))("asking the control plane (needs jq, which GitHub's image has)", () => {
  it.each([
    ["gpu-gate-recovery.yml", { pr_number: "7", keep_minutes: "60" }, "recover", { pr_number: 7, keep_minutes: 60 }],
    ["gpu-gate-recovery.yml", { pr_number: "7" }, "recover", { pr_number: 7 }],
    [
      "gpu-gate-validation.yml",
      { revision: SHA, keep_minutes: "720" },
      "validate",
      { revision: SHA, keep_minutes: 720 },
    ],
  ])("%s with %o shows its own token and asks", async (file, inputs, route, body) => {
    const run = await dispatch(file, inputs);
    expect(run.attempts[0]?.conclusion, run.attempts[0]?.jobs.map((job) => job.log).join("\n")).toBe("success");
    expect(asked.at(-1)).toMatchObject({
      path: `/v1/${route}`,
      body,
      claims: {
        actor: "mira",
        event_name: "workflow_dispatch",
        job_workflow_ref: `octo/lab/${path(file)}@refs/heads/main`,
        runner_environment: "github-hosted",
        run_attempt: "1",
      },
    });
    expect(asked.at(-1)?.body).toEqual(body);
  });
});

describe("gpu-gate-sweep.yml, by the clock", () => {
  const rent = (deployment: string, attemptId: string): string => {
    const owner = { deployment, repositoryId: "101", requestId: "r1", attemptId, runId: "900", keep: "false" };
    return runpod.rentForeignPod({ name: podName(owner), env: ownershipTags(owner) });
  };

  it("with the control plane down still looks at the account, with nothing but the key; and says who is down", async () => {
    const theirs = rent("gpu-gate", "r1-1");
    bench.repo.setVariable("GPU_GATE_URL", "http://127.0.0.1:9");
    const run = await clock("2026-11-30T10:22:10Z");
    expect([jobOf(run, "Ask the control plane").conclusion, jobOf(run, "Backstop").conclusion]).toEqual([
      "failure",
      "success",
    ]);
    const { log } = jobOf(run, "Backstop");
    expect(log).toContain(`${theirs}: younger than the backstop, left alone`);
    expect(log).not.toContain("rpa_sweep");
  });

  it("without the key says what is missing", async () => {
    bench.repo.setSecret("RUNPOD_API_KEY", "", "gpu-gate-sweep");
    const run = await clock("2026-11-30T10:37:10Z");
    expect(jobOf(run, "Backstop").log).toContain("::error title=No backstop::Put the secret RUNPOD_API_KEY");
  });
});

describe("gpu-gate-runner-watch.yml, by the clock", () => {
  it("fails when the image has been behind for weeks, and not any more when it is right again", async () => {
    bench.repo.setWorkflowState(path("gpu-gate-sweep.yml"), "disabled_manually");
    const behind = await clock("2026-12-01T05:13:10Z");
    expect(jobOf(behind, "Runner release").log).toContain(
      "::error title=Runner image::Runner 2.336.0 is behind 2.337.0",
    );
    expect(behind.attempts[0]?.conclusion).toBe("failure");
    runnerDigest = "b";
    const fresh = await clock("2026-12-02T05:13:10Z");
    expect(fresh.attempts[0]?.conclusion).toBe("success");
  });
});
