/**
 * Every public example payload, correctly signed, against the running Worker: the bundle as it is deployed, in a workerd
 * without Node's modules. Every repository in them is on the allow-list, so nothing is ignored for that reason.
 */
import { createHmac } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare, Response as MiniflareResponse } from "miniflare";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { PKCS1 } from "../github/stub.ts";

const SECRET = "It's a Secret to Everybody";
/** The events and actions this App acts on; everything else is ignored. Written down here on its own, not imported. */
const ACTED_ON: Readonly<Record<string, readonly string[]>> = {
  pull_request: [
    "opened",
    "reopened",
    "synchronize",
    "ready_for_review",
    "converted_to_draft",
    "labeled",
    "unlabeled",
    "closed",
    "edited",
  ],
  workflow_run: ["requested", "in_progress", "completed"],
  workflow_job: ["queued", "waiting", "in_progress", "completed"],
  check_run: ["created", "completed", "rerequested", "requested_action"],
  check_suite: ["rerequested"],
  merge_group: ["checks_requested", "destroyed"],
  repository: ["renamed", "transferred", "archived", "unarchived", "deleted"],
  installation: ["created", "deleted", "suspend", "unsuspend"],
  installation_repositories: ["added", "removed"],
};

interface Example {
  readonly event: string;
  readonly action: string;
  readonly payload: unknown;
}

const catalogue = z
  .array(z.object({ name: z.string(), examples: z.array(z.looseObject({ action: z.string().optional() })) }))
  .parse(JSON.parse(readFileSync(createRequire(import.meta.url).resolve("@octokit/webhooks-examples"), "utf8")));

const examples: readonly Example[] = catalogue.flatMap(({ name, examples: payloads }) =>
  payloads.map((payload) => ({ event: name, action: payload.action ?? "", payload })),
);

const isActedOn = ({ event, action }: Example) => ACTED_ON[event]?.includes(action) ?? false;

let folder = "";
let worker: Miniflare | null = null;
const crashes: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpu-gate-examples-"));
  const bundle = await build({
    entryPoints: [join(import.meta.dirname, "..", "..", "worker", "index.ts")],
    bundle: true,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    mainFields: ["browser", "module", "main"],
    external: ["cloudflare:workers"],
    write: false,
    logLevel: "silent",
  });
  const contents = bundle.outputFiles[0]?.text ?? "";
  const object = (exportName: string) => ({ type: "durable-object" as const, worker: "gpu-gate", exportName });
  const text = (value: string) => ({ type: "text" as const, value });
  worker = new Miniflare({
    host: "127.0.0.1",
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    resourcePersistencePath: folder,
    handleStructuredLogs: () => undefined,
    handleUncaughtError: (error) => crashes.push(error.message),
    workers: [
      {
        config: {
          name: "gpu-gate",
          compatibilityDate: "2026-11-01",
          manifest: { mainModule: "index.js", modules: { "index.js": { type: "esm", contents } } },
          env: {
            REPOSITORY_GATE: object("RepositoryGate"),
            RUNPOD_ACCOUNT: object("RunPodAccount"),
            FLEET_BOARD: object("FleetBoard"),
            DEPLOYMENT: text("examples"),
            GITHUB_APP_ID: text("1234"),
            GITHUB_APP_PRIVATE_KEY: text(PKCS1),
            GITHUB_WEBHOOK_SECRET: text(SECRET),
            GITHUB_WEBHOOK_SECRET_PREVIOUS: text(""),
            GITHUB_ALLOWED_REPOSITORIES: text([...new Set(examples.flatMap(repositoriesOf))].join(",")),
            GITHUB_API_URL: text("https://github.test"),
            GITHUB_WEB_URL: text("https://github.test"),
            RUNPOD_API_KEY: text("key"),
            RUNPOD_API_URL: text("https://runpod.test"),
            RUNPOD_GRAPHQL_URL: text("https://runpod.test/graphql"),
            OIDC_ISSUER_URL: text("https://oidc.test"),
            IMAGE_REGISTRY_URL: text("https://registry.test"),
            PUBLIC_URL: text("https://gate.test"),
            STATUS_PAGE: text("off"),
            DEPLOYMENT_LIMITS: text(""),
          },
          exports: Object.fromEntries(
            ["RepositoryGate", "RunPodAccount", "FleetBoard"].map((exportName) => [
              exportName,
              { type: "durable-object" as const, storage: "sqlite" as const },
            ]),
          ),
        },
        dev: {
          outboundService: { type: "fetcher", handler: () => new MiniflareResponse("nobody here", { status: 599 }) },
        },
      },
    ],
  });
  await worker.ready;
});

afterAll(async () => {
  await worker?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

/** Ids under `repository`, and those an installation lists. */
function repositoriesOf({ payload }: Example): string[] {
  const listed = z.array(z.object({ id: z.number() })).catch([]);
  const parsed = z
    .object({
      repository: z.object({ id: z.number() }).nullish().catch(null),
      repositories: listed,
      repositories_added: listed,
      repositories_removed: listed,
    })
    .parse(payload);
  const all = [...parsed.repositories, ...parsed.repositories_added, ...parsed.repositories_removed];
  return [...(parsed.repository ? [parsed.repository] : []), ...all].map((one) => String(one.id));
}

function running(): Miniflare {
  if (worker === null) throw new Error("the Worker was not started");
  return worker;
}

let sent = 0;

async function post({ event, payload }: Example): Promise<string> {
  const body = JSON.stringify(payload);
  sent += 1;
  const answer = await running().dispatchFetch("https://gate.test/github/webhooks", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "user-agent": "GitHub-Hookshot/044aadd",
      "x-github-event": event,
      "x-github-delivery": `example-${sent}`,
      "x-hub-signature-256": `sha256=${createHmac("sha256", SECRET).update(body).digest("hex")}`,
    },
    body,
  });
  return `${answer.status} ${await answer.text()}`;
}

/** Gates that have a database on disk: each makes one in its first moment. */
function gatesOnDisk(): number {
  const found = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return found.filter((file) => /RepositoryGate[/\\][0-9a-f]{64}\.sqlite$/.test(file)).length;
}

describe("every public example payload", () => {
  it("that is not acted on is 202, named as ignored, and touches no gate", async () => {
    const ignored = examples.filter((example) => !isActedOn(example));
    expect(ignored.length).toBeGreaterThan(200);
    const answers = await Promise.all(ignored.map(async (one) => [one.event, one.action, await post(one)] as const));
    const others = answers.filter(
      ([event, , answer]) =>
        !answer.startsWith(`202 Ignored: ${event}`) && !answer.startsWith(`202 Ignored: event ${event}`),
    );
    expect(others).toEqual([]);
    expect(gatesOnDisk()).toBe(0);
  });

  it("that is acted on is 202 and stored by its gate; one that names no repository is told to every served one", async () => {
    const heard = examples.filter(isActedOn);
    expect(heard.length).toBeGreaterThan(50);
    const answers = await Promise.all(heard.map(async (one) => [one.event, one.action, await post(one)] as const));
    expect(answers.filter(([, , answer]) => answer !== "202 Accepted.")).toEqual([]);
    // The word of an installation as a whole goes to every gate of the allow-list, and to no other.
    expect(gatesOnDisk()).toBe(new Set(examples.flatMap(repositoriesOf)).size);
  });

  it("left no exception behind, and the Worker still answers", async () => {
    expect(crashes).toEqual([]);
    const health = await running().dispatchFetch("https://gate.test/healthz");
    expect(health.status).toBe(200);
  });
});
