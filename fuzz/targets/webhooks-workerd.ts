/**
 * Deliveries over HTTP against the Worker as it is deployed, in workerd. Whether a gate stored anything is read from its own
 * count of deliveries.
 */
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { Miniflare, Response as MiniflareResponse } from "miniflare";
import * as z from "zod";
import {
  deliveryCase,
  deliveryOf,
  judgeAnswer,
  judgeHangUp,
  SECRET,
  servedRepositories,
  type Delivery,
  type DeliveryCase,
} from "../delivery.ts";
import { exchange } from "../exchange.ts";
import { target, unfit, type Session } from "../target.ts";

const PREVIOUS = "the-secret-before-this-one";
const statusSchema = z.object({
  repositories: z.array(
    z.object({ id: z.string(), view: z.object({ counters: z.record(z.string(), z.number()) }).nullable() }),
  ),
});
const CLASSES = ["RepositoryGate", "RunPodAccount", "FleetBoard"];

export const webhooksWorkerd = target<DeliveryCase>({
  name: "webhooks-workerd",
  about: "deliveries over HTTP against the deployed bundle in workerd",
  share: 2,
  sample: 3,
  hangMs: 30_000,
  // Here the gate is always up.
  cases: deliveryCase.map((given) => ({ ...given, gateDown: false })),
  open: openWorkerd,
});

async function openWorkerd(): Promise<Session<DeliveryCase>> {
  const folder = mkdtempSync(join(tmpdir(), "gpu-gate-fuzz-"));
  const crashes: string[] = [];
  const worker = new Miniflare(await configuration(folder, crashes));
  const url = String(await worker.ready);
  const stored = async (): Promise<string> => {
    const answer = await exchange(url, "GET", "/api/status", {}, []);
    if (answer.kind === "hung-up") throw new Error(`the status was cut off by ${answer.code}`);
    const told = statusSchema.parse(JSON.parse(answer.text));
    // Real gates go on with what they heard before: only what a delivery alone moves is compared.
    return JSON.stringify(
      told.repositories.map(({ id, view }) => [
        id,
        Object.entries(view?.counters ?? {}).filter(([name]) => name.startsWith("deliveries")),
      ]),
    );
  };
  return {
    async judge(given) {
      const sent = deliveryOf(given, { now: SECRET, previous: PREVIOUS });
      const before = sent.signed ? null : await stored();
      const answer = await exchange(url, "POST", "/github/webhooks", sent.headers, piecesOf(sent, given.pieces));
      // A Worker that hung up must still be there.
      const after = before === null && answer.kind === "answered" ? null : await stored();
      const changed = before === null ? null : before !== after;
      const crash = crashes.splice(0)[0];
      if (crash !== undefined) return `the Worker threw: ${crash.slice(0, 300)}`;
      if (answer.kind === "hung-up") return judgeHangUp(sent, answer, changed);
      return judgeAnswer(given, sent, answer, changed) ?? unfit(answer.text + answer.headers, [SECRET, PREVIOUS]);
    },
    async close() {
      await worker.dispose();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function piecesOf({ bytes }: Delivery, pieces: number): readonly Uint8Array[] {
  if (pieces === 0) return [bytes];
  const size = Math.max(1, Math.ceil(bytes.byteLength / pieces));
  return Array.from({ length: Math.ceil(bytes.byteLength / size) }, (_, index) =>
    bytes.slice(index * size, (index + 1) * size),
  );
}

async function configuration(folder: string, crashes: string[]): Promise<ConstructorParameters<typeof Miniflare>[0]> {
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
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const object = (exportName: string) => ({ type: "durable-object" as const, worker: "gpu-gate", exportName });
  const vars = {
    DEPLOYMENT: "fuzz",
    GITHUB_APP_ID: "1234",
    GITHUB_APP_PRIVATE_KEY: privateKey.export({ type: "pkcs1", format: "pem" }).toString(),
    GITHUB_WEBHOOK_SECRET: SECRET,
    GITHUB_WEBHOOK_SECRET_PREVIOUS: PREVIOUS,
    GITHUB_ALLOWED_REPOSITORIES: [...servedRepositories].join(","),
    GITHUB_API_URL: "https://github.test",
    GITHUB_WEB_URL: "https://github.test",
    RUNPOD_API_KEY: "rpa_fuzzfuzzfuzzfuzz",
    RUNPOD_API_URL: "https://runpod.test",
    RUNPOD_GRAPHQL_URL: "https://runpod.test/graphql",
    OIDC_ISSUER_URL: "https://oidc.test",
    IMAGE_REGISTRY_URL: "https://registry.test",
    PUBLIC_URL: "https://gate.test",
    STATUS_PAGE: "on",
    DEPLOYMENT_LIMITS: "",
  };
  return {
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
          manifest: {
            mainModule: "index.js",
            modules: { "index.js": { type: "esm", contents: bundle.outputFiles[0]?.text ?? "" } },
          },
          env: {
            REPOSITORY_GATE: object("RepositoryGate"),
            RUNPOD_ACCOUNT: object("RunPodAccount"),
            FLEET_BOARD: object("FleetBoard"),
            ...Object.fromEntries(
              Object.entries(vars).map(([name, value]) => [name, { type: "text" as const, value }]),
            ),
          },
          exports: Object.fromEntries(
            CLASSES.map((exportName) => [exportName, { type: "durable-object" as const, storage: "sqlite" as const }]),
          ),
        },
        dev: {
          outboundService: { type: "fetcher", handler: () => new MiniflareResponse("nobody here", { status: 599 }) },
        },
      },
    ],
  };
}
