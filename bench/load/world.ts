/**
 * The world of the load run: the Worker's real bundle in workerd on stored state, many repositories of one installation,
 * the local GitHub and the local RunPod with the vendors' own limits in force. All of it over HTTP on 127.0.0.1.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  newWebhookSecret,
  startLocalGitHub,
  type LocalGitHub,
  type RepositoryControl,
} from "../../local/github/index.ts";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod, Quotas } from "../../local/runpod/types.ts";
import { startWorker, type WorkerProcess } from "../../local/world/worker-process.ts";
import { CI, ciScript, EXECUTE, PREPARE, prepareScript } from "../../local/world/workflows.ts";
import { buildBundle } from "../../local/world/world.ts";
import { evidenceNotice } from "../../shared/hosted/evidence.ts";
import { OWNER } from "./deliveries.ts";
import { installationHour } from "./quotas.ts";

export interface LoadWorldOptions {
  readonly repositories: number;
  readonly quotas: Quotas;
  /** The repositories' `limits:`; empty: the product's own, as in production. */
  readonly limits: string;
  readonly cronEveryMs: number;
  readonly onLog: (line: string) => void;
}

export interface LoadWorld {
  readonly github: LocalGitHub;
  readonly runpod: LocalRunPod;
  readonly worker: WorkerProcess;
  readonly webhookSecret: string;
  readonly stateDir: string;
  readonly repositories: readonly RepositoryControl[];
  /** Lets the GPU jobs go on: until then every one of them stays in its test step. */
  releaseJobs(): void;
  /** Resident memory of workerd, MiB. */
  residentMiB(): number;
  close(): Promise<void>;
}

const FIRST_ID = 101;
/** What the gate hands to the paid workflow. */
const EXECUTE_INPUTS = "request attempt label prepare_run_id artifact_ids runtime_ids tested_sha tier gpu price".split(
  " ",
);
/** Answers take a while, as they do over the internet: what is under way at the same time is a quota of its own. */
const GITHUB_MS = 100;
const RUNPOD_MS = 100;

function config(limits: string): string {
  return `version: 1
paths:
  docs:
    files: [README.md]
    prefixes: [docs/]
lanes:
  docs:
    asked_by: [docs]
gpu:
  tiers:
    - name: cost-preferred
      gpu_ids: [NVIDIA RTX A4000, NVIDIA RTX A5000, NVIDIA L4, NVIDIA A40]
    - name: a100
      gpu_ids: [NVIDIA A100 80GB PCIe]
  cuda_versions: ["12.6", "12.8"]
fork_fallback:
  instructions: Ask a maintainer.
${limits}`;
}

export async function startLoadWorld(options: LoadWorldOptions): Promise<LoadWorld> {
  const dir = mkdtempSync(join(tmpdir(), "gpu-gate-load-"));
  const released = join(dir, "released");
  const bundleDir = await buildBundle(join(dir, "bundle"));
  const webhookSecret = newWebhookSecret();
  const apiKey = `local-${newWebhookSecret()}`;
  const github = await startLocalGitHub({ webhookSecret, stateDir: join(dir, "github"), latencyMs: GITHUB_MS });
  github.rateLimit.limit = installationHour(options.repositories);
  github.rateLimit.secondary = true;
  const imageDir = join(dir, "image");
  buildImage({ imageDir, runScript: join(import.meta.dirname, "..", "..", "local", "runner", "run.sh") });
  const runpod = await startLocalRunPod({
    apiKey,
    stateDir: join(dir, "pods"),
    imageDir,
    latencyMs: RUNPOD_MS,
    quotas: options.quotas,
    balance: 10_000,
  });
  github.setWorkflowScript(CI, ciScript);
  github.setWorkflowScript(PREPARE, prepareScript);
  github.setWorkflowScript(EXECUTE, {
    name: "GPU gate execute",
    on: ["workflow_dispatch"],
    inputs: EXECUTE_INPUTS,
    runName: ({ inputs }) => `gpu-gate execute ${inputs["request"] ?? ""} ${inputs["attempt"] ?? ""}`,
    plan: ({ inputs }) => ({
      jobs: [
        {
          name: "GPU tests",
          runsOn: ["self-hosted", inputs["label"] ?? "none"],
          steps: [
            { name: "Check the machine", run: "nvidia-smi >/dev/null" },
            { name: "Run GPU tests", run: `while [ ! -e '${released}' ]; do sleep 2; done; sleep 1.2` },
            { name: "Report", run: `echo '${evidenceNotice({ tests: 42, durationMs: 20_000 })}'` },
          ],
        },
      ],
    }),
  });
  const text = config(options.limits);
  const repositories = Array.from({ length: options.repositories }, (_, index) => {
    const repository = github.createRepository({
      owner: OWNER,
      name: `repo-${index}`,
      id: FIRST_ID + index,
      files: {
        "README.md": `# repo-${index}\n`,
        ".github/gpu-gate.yml": text,
        [CI]: "name: CI\n",
        [PREPARE]: "name: GPU gate prepare\n",
        [EXECUTE]: "name: GPU gate execute\n",
      },
    });
    repository.addCollaborator("mira", "admin");
    return repository;
  });

  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const worker = await startWorker({
    bundleDir,
    worldDir: dir,
    port,
    cronEveryMs: options.cronEveryMs,
    onLog: options.onLog,
    vars: {
      DEPLOYMENT: "load",
      GITHUB_APP_ID: github.appId,
      GITHUB_APP_PRIVATE_KEY: github.privateKeyPem,
      GITHUB_WEBHOOK_SECRET: webhookSecret,
      GITHUB_WEBHOOK_SECRET_PREVIOUS: "",
      GITHUB_ALLOWED_REPOSITORIES: repositories.map((repository) => String(repository.id)).join(","),
      GITHUB_API_URL: github.url,
      GITHUB_WEB_URL: github.url,
      RUNPOD_API_KEY: apiKey,
      RUNPOD_API_URL: runpod.url,
      RUNPOD_GRAPHQL_URL: runpod.graphqlUrl,
      OIDC_ISSUER_URL: github.url,
      IMAGE_REGISTRY_URL: runpod.registryUrl,
      PUBLIC_URL: url,
      STATUS_PAGE: "off",
      DEPLOYMENT_LIMITS: "",
    },
  });
  return {
    github,
    runpod,
    worker,
    webhookSecret,
    stateDir: join(dir, "worker-state"),
    repositories,
    releaseJobs: () => writeFileSync(released, ""),
    residentMiB: () => residentMiB(Number(readFileSync(join(dir, "worker.pid"), "utf8"))),
    async close() {
      await worker.close();
      await runpod.close();
      await github.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The host's own children are workerd: the product runs there, the host only starts it. */
function residentMiB(host: number): number {
  try {
    const children = readFileSync(`/proc/${host}/task/${host}/children`, "utf8").trim().split(" ").map(Number);
    const kib = children.map((pid) =>
      Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0"),
    );
    return Math.round(kib.reduce((sum, one) => sum + one, 0) / 1024);
  } catch {
    // No /proc here, or the process has just ended: a number that is not there is none.
    return 0;
  }
}

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
