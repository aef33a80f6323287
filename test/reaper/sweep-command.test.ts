/** `gpu-gate sweep --deployment`: the backstop with nothing but RunPod's key, against the local RunPod. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sweepPods } from "../../cli/sweep-pods.ts";
import { buildImage } from "../../local/runpod/image.ts";
import { startLocalRunPod } from "../../local/runpod/server.ts";
import type { LocalRunPod } from "../../local/runpod/types.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { gpuGate } from "../hosted/io.ts";

let dir: string;
let runpod: LocalRunPod;
let later: number;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "gpu-gate-sweep-"));
  later = 0;
  const imageDir = join(dir, "image");
  buildImage({ imageDir, runScript: join(import.meta.dirname, "..", "..", "local", "runner", "run.sh") });
  runpod = await startLocalRunPod({ apiKey: "rpa_test", stateDir: join(dir, "pods"), imageDir });
});

afterEach(async () => {
  await runpod.close();
  rmSync(dir, { recursive: true, force: true });
});

function rent(deployment: string, attemptId: string): string {
  const owner = { deployment, repositoryId: "101", requestId: "r1", attemptId, runId: "900", keep: "false" };
  return runpod.rentForeignPod({ name: podName(owner), env: ownershipTags(owner) });
}

const alive = () => runpod.pods().flatMap((pod) => (pod.releasedAtMs === null ? [pod.id] : []));
const sweep = (...args: string[]) =>
  gpuGate(["sweep", ...args], {
    env: { RUNPOD_API_KEY: "rpa_test", RUNPOD_API_URL: runpod.url },
    fetch: (input, init) => fetch(input, init),
    now: () => Date.now() + later,
  });

describe("gpu-gate sweep --deployment", () => {
  it("--dry-run names what is too old, and touches nothing", async () => {
    const ours = rent("prod", "r1-1");
    const theirs = rent("staging", "r1-1");
    const foreign = runpod.rentForeignPod({ name: "notebook" });
    later = 7_201_000;
    const { code, out } = await sweep("--deployment", "prod", "--dry-run");
    expect(code).toBe(0);
    expect(out).toContain(`${ours}: would be removed (backstop)`);
    expect(out).toContain("3 pods listed: 1 of prod, 2 of others.");
    expect(alive()).toEqual([ours, theirs, foreign]);
  });

  it("leaves a pod alone that is younger than the backstop", async () => {
    const ours = rent("prod", "r1-1");
    const { code, out } = await sweep("--deployment", "prod");
    expect([code, out.includes(`${ours}: younger than the backstop`)]).toEqual([0, true]);
    expect(alive()).toEqual([ours]);
  });

  it("says that it needs the key, and takes no backstop above two hours", async () => {
    const answer = await gpuGate(["sweep", "--deployment", "prod"], { env: {} });
    expect([answer.code, answer.err]).toEqual([2, expect.stringContaining("RUNPOD_API_KEY is not set")]);
    expect((await sweep("--deployment", "prod", "--backstop", "7201")).code).toBe(2);
    expect((await sweep("--dry-run")).code).toBe(2);
  });
});

describe("the removal", () => {
  const client = () =>
    createRunPodClient({
      apiKey: "rpa_test",
      baseUrl: runpod.url,
      graphqlUrl: runpod.graphqlUrl,
      fetch: (input, init) => fetch(input, init),
      clock: { now: () => Date.now() + later },
      userAgent: "test",
    });
  const run = () =>
    sweepPods(client(), {
      deployment: "prod",
      execute: true,
      backstopMs: 7_200_000,
      listGapMs: 10_000,
      now: () => Date.now() + later,
      sleep: (durationMs) => {
        later += durationMs;
        return Promise.resolve();
      },
    });

  it("deletes ours that are too old, proves them gone, and nobody else's", async () => {
    const ours = rent("prod", "r1-1");
    const theirs = rent("staging", "r1-1");
    later = 7_201_000;
    const answer = await run();
    expect(answer).toMatchObject({
      kind: "swept",
      result: { pods: [{ podId: ours, deleted: true, provenGone: true }] },
    });
    expect(alive()).toEqual([theirs]);
  });

  it("goes on after a pod that RunPod does not delete, and reports it", async () => {
    const stuck = rent("prod", "r1-1");
    const other = rent("prod", "r1-2");
    later = 7_201_000;
    runpod.faults.next({ method: "DELETE", route: new RegExp(`${stuck}$`) }, { kind: "answer", status: 403 }, 5);
    const answer = await run();
    expect(answer.kind === "swept" && answer.result.errors.map((each) => each.podId)).toEqual([stuck]);
    expect(alive()).toEqual([stuck]);
    expect(alive()).not.toContain(other);
  });
});
