/**
 * The local world: a local GitHub, a local RunPod with its image registry, and the Worker in workerd, wired to each other
 * over real HTTP on 127.0.0.1. Everything it owns is below one folder and ends with it.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { newWebhookSecret, startLocalGitHub, type LocalGitHub } from "../github/index.ts";
import { buildImage } from "../runpod/image.ts";
import { startLocalRunPod } from "../runpod/server.ts";
import type { LocalRunPod } from "../runpod/types.ts";
import { clearLeftovers } from "./leftovers.ts";
import { freePort } from "./ports.ts";
import { bundledTool, writeHostedPrograms } from "./project.ts";
import { startWorker, type WorkerProcess } from "./worker-process.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const WORLDS = join(ROOT, ".local-world");

export const DEPLOYMENT = "local";
export const REPOSITORY_ID = "101";

export interface World {
  readonly github: LocalGitHub;
  readonly runpod: LocalRunPod;
  readonly worker: WorkerProcess;
  readonly dir: string;
  /** The text of the bundled command line, for the hosted jobs of its repositories. */
  readonly tool: string;
  /** The deployment's `OPERATOR_TOKEN`: made for this world alone, and worth nothing anywhere else. */
  readonly operatorToken: string;
  close(): Promise<void>;
}

export interface WorldOptions {
  /** Port of the Worker; 0: any free one. */
  readonly port: number;
  readonly latencyMs?: number;
  readonly onLog?: (line: string) => void;
  /** Reports what is being started. */
  readonly progress: (text: string) => void;
}

/**
 * Builds the Worker's bundle exactly as a deployment would, without deploying it; gives `outdir`. A folder of the caller's own:
 * two that build at once would read each other's halves.
 */
export async function buildBundle(outdir: string): Promise<string> {
  const wrangler = join(ROOT, "node_modules", "wrangler", "bin", "wrangler.js");
  const env = {
    ...process.env,
    WRANGLER_SEND_METRICS: "false",
    WRANGLER_SEND_ERROR_REPORTS: "false",
    WRANGLER_HIDE_BANNER: "true",
    CI: "1",
  };
  await promisify(execFile)(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", outdir, "--minify"], {
    cwd: ROOT,
    env,
  });
  return outdir;
}

export async function startWorld(options: WorldOptions): Promise<World> {
  clearLeftovers(WORLDS);
  const dir = join(WORLDS, `world-${process.pid}`);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });

  options.progress("building the Worker and the command line");
  const [bundleDir, tool] = await Promise.all([buildBundle(join(dir, "bundle")), bundledTool(dir)]);
  options.progress("starting the local GitHub and the local RunPod");
  const webhookSecret = newWebhookSecret();
  const apiKey = newWebhookSecret();
  const operatorToken = `local-operator-${randomBytes(16).toString("hex")}`;
  const github = await startLocalGitHub({
    webhookSecret,
    stateDir: join(dir, "github"),
    hosted: { folder: join(dir, "hosted"), programs: writeHostedPrograms(join(dir, "hosted-programs")) },
    ...(options.latencyMs === undefined ? {} : { latencyMs: options.latencyMs }),
  });
  const imageDir = join(dir, "image");
  buildImage({ imageDir, runScript: join(ROOT, "local", "runner", "run.sh") });
  const runpod = await startLocalRunPod({
    apiKey,
    stateDir: join(dir, "pods"),
    imageDir,
    ...(options.latencyMs === undefined ? {} : { latencyMs: options.latencyMs }),
    // Much faster than life, so the quota must be larger than life too.
    quotas: { minute: 6_000, hour: 100_000, day: 1_000_000 },
  });

  options.progress("starting the Worker in workerd");
  const port = options.port === 0 ? await freePort() : options.port;
  const url = `http://127.0.0.1:${port}`;
  const worker = await startWorker({
    bundleDir,
    worldDir: dir,
    port,
    cronEveryMs: 1_500,
    ...(options.onLog === undefined ? {} : { onLog: options.onLog }),
    vars: {
      DEPLOYMENT,
      GITHUB_APP_ID: github.appId,
      GITHUB_APP_PRIVATE_KEY: github.privateKeyPem,
      GITHUB_WEBHOOK_SECRET: webhookSecret,
      GITHUB_WEBHOOK_SECRET_PREVIOUS: "",
      GITHUB_ALLOWED_REPOSITORIES: REPOSITORY_ID,
      GITHUB_API_URL: github.url,
      GITHUB_WEB_URL: github.url,
      RUNPOD_API_KEY: apiKey,
      RUNPOD_API_URL: runpod.url,
      RUNPOD_GRAPHQL_URL: runpod.graphqlUrl,
      OIDC_ISSUER_URL: github.url,
      IMAGE_REGISTRY_URL: runpod.registryUrl,
      PUBLIC_URL: url,
      STATUS_PAGE: "on",
      OPERATOR_TOKEN: operatorToken,
      // What goes by cron's cycle, here shorter than a minute: the reaper's two looks, and asking for lost deliveries again.
      DEPLOYMENT_LIMITS: JSON.stringify({ reap_gap: 2, redelivery: 5 }),
    },
  });
  github.webhooks.configure({ url: `${url}/github/webhooks` });
  return {
    github,
    runpod,
    worker,
    dir,
    tool,
    operatorToken,
    async close() {
      await worker.close();
      await runpod.close();
      await github.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
