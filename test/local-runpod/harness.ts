/** A local RunPod per test, with a clock the test moves and an image whose runner only waits. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as z from "zod";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod, LocalRunPodOptions } from "../../local/runpod/types.ts";

export const API_KEY = "local-account-key";
export const GPU = "NVIDIA L4";
export const T0 = Date.UTC(2026, 10, 30, 12);

const podSchema = z.looseObject({
  id: z.string(),
  name: z.string(),
  status: z.string(),
  env: z.record(z.string(), z.string()),
  gpu: z.object({ id: z.string(), count: z.number() }),
  cloud: z.string(),
  dataCenterId: z.string().nullable(),
  cudaVersion: z.string().nullable(),
  ssh: z.object({ proxy: z.unknown(), direct: z.unknown() }),
  cost: z.number(),
  runtime: z.looseObject({}).nullable(),
  createdAt: z.string(),
  startedAt: z.string().nullable(),
});
export type SeenPod = z.infer<typeof podSchema>;

const problemSchema = z.object({
  title: z.string(),
  status: z.number(),
  detail: z.string(),
  errors: z.array(z.string()).optional(),
});

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export function pod(reply: Reply): SeenPod {
  return podSchema.parse(JSON.parse(reply.text));
}

export function podList(reply: Reply) {
  const list = z.object({
    pods: z.array(podSchema),
    pagination: z.object({ nextCursor: z.string().nullable(), hasNextPage: z.boolean() }).optional(),
  });
  return list.parse(JSON.parse(reply.text));
}

export function problem(reply: Reply) {
  if (reply.headers.get("content-type") !== "application/problem+json") throw new Error(`no problem: ${reply.text}`);
  return problemSchema.parse(JSON.parse(reply.text));
}

export interface World {
  readonly runpod: LocalRunPod;
  readonly folder: string;
  /** Moves the server's clock; the next request sees what became due. */
  readonly pass: (ms: number) => void;
  readonly call: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Reply>;
  readonly create: (change?: Readonly<Record<string, unknown>>) => Promise<Reply>;
  readonly close: () => Promise<void>;
}

/** Starts a world with a clock that stands still until `pass`. */
export async function openWorld(options: Partial<LocalRunPodOptions> = {}): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), "gpu-gate-runpod-"));
  writeFileSync(join(folder, "run.sh"), '#!/usr/bin/env bash\necho "runner $*"\n');
  chmodSync(join(folder, "run.sh"), 0o755);
  buildImage({ imageDir: join(folder, "image"), runScript: join(folder, "run.sh") });
  let time = T0;
  const runpod = await startLocalRunPod({
    apiKey: API_KEY,
    stateDir: join(folder, "state"),
    imageDir: join(folder, "image"),
    now: () => time,
    ...options,
    timing: { placeMs: 1_000, bootMs: 1_000, listLagMs: 500, ...options.timing },
  });

  const call: World["call"] = async (method, path, body, headers = {}) => {
    const response = await fetch(`${runpod.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${API_KEY}`, "User-Agent": "test", ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  return {
    runpod,
    folder,
    call,
    pass: (ms) => {
      time += ms;
    },
    create: async (change = {}) =>
      call("POST", "/pods", { name: "gpu-gate-a1", image: "example/image:1", gpu: { id: GPU, count: 1 }, ...change }),
    close: async () => {
      await runpod.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** `args` that run this bash text in the container. */
export function bash(text: string): string {
  return JSON.stringify({ entrypoint: ["bash", "-c"], cmd: [text] });
}

/** Resolves when the check holds; looked at on every turn of the event loop and bounded by the test's own time limit. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}
