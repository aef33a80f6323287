/**
 * Buying against the real local servers: what a machine says of itself, who gets the runner, and what the check tells. Each
 * test is one life of a pull request; RunPod's and GitHub's own books are the judges.
 */
import { describe, expect, it, type TestContext } from "vitest";
import * as z from "zod";
import { EXECUTE, executeScript } from "../../local/world/workflows.ts";
import type { WorkflowScript } from "../../local/github/index.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { CONFIG, startLife, verdictOf, type Life } from "./life.ts";

/** A world of the test's own, closed when the test is done. Lives mostly wait, so the tests run side by side. */
async function life(test: TestContext, options: Parameters<typeof startLife>[0] = {}): Promise<Life> {
  const made = await startLife(options);
  test.onTestFinished(() => made.close());
  return made;
}

/** Every pod is gone by RunPod's own books. */
function allGone(world: Life): boolean {
  return world.runpod.pods().every((pod) => pod.releasedAtMs !== null);
}

const BAD_CARD = "GPU-bad00000-0000-0000-0000-000000000001";

describe.concurrent("a machine that fails", () => {
  it.concurrent("says why in its exit call and its log; both are in the evidence, and the machine is remembered", async (test) => {
    const world = await life(test);
    world.runpod.nextPod({ nvidiaSmi: { mode: "ecc", uuid: BAD_CARD }, dataCenterId: "EU-RO-1" });
    const request = await world.concluded(world.openCode("matmul"));

    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.counts.pods).toBe(2);
    expect(request.tried[0]?.answer).toMatch(
      /^rejected: The start script refused the machine: gpu-error\..*REFUSED \(gpu-error\)/,
    );
    expect(world.sql.exec(`SELECT attempt_id, gpu_uuid, data_center, why FROM bad_hosts`)).toEqual([
      { attempt_id: `${request.id}-1`, gpu_uuid: BAD_CARD, data_center: "EU-RO-1", why: "attempt-proof-refused" },
    ]);
    const acts = world.audits();
    expect(acts.find((entry) => entry.act === "pod.exit")?.facts).toMatchObject({
      attempt: `${request.id}-1`,
      why: "gpu-error",
    });
    expect(acts.find((entry) => entry.act === "pod.last-words")?.facts["said"]).toMatch(/REFUSED \(gpu-error\)/);
    expect(allGone(world)).toBe(true);
  });

  it.concurrent("is declined when its card has failed twice: its runner never starts", async (test) => {
    const world = await life(test);
    for (const attempt of ["x1", "x2"]) {
      world.sql.exec(
        `INSERT INTO bad_hosts (attempt_id, gpu_uuid, data_center, at, why) VALUES (?, ?, NULL, ?, 'attempt-proof-refused')`,
        attempt,
        BAD_CARD,
        Date.now() - 60_000,
      );
    }
    world.runpod.nextPod({ nvidiaSmi: { uuid: BAD_CARD } });
    const request = await world.concluded(world.openCode("matmul"));

    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.counts.pods).toBe(2);
    expect(request.tried[0]?.answer).toContain(`The GPU ${BAD_CARD} failed 2 times lately.`);
    const first = world.github.books.runners.filter((entry) => entry.name.endsWith("-r1-1")).map((entry) => entry.what);
    expect(first).not.toContain("connected");
    // A decline is no failure of its own: the machine comes back when the two are old.
    expect(world.sql.exec(`SELECT count(*) AS n FROM bad_hosts`)).toEqual([{ n: 2 }]);
  });

  it.concurrent("that only failed once, or long ago, is taken", async (test) => {
    const world = await life(test);
    const insert = `INSERT INTO bad_hosts (attempt_id, gpu_uuid, data_center, at, why) VALUES (?, ?, NULL, ?, 'x')`;
    world.sql.exec(insert, "x1", BAD_CARD, Date.now() - 60_000);
    world.sql.exec(insert, "x2", BAD_CARD, Date.now() - 22_000_000);
    world.runpod.nextPod({ nvidiaSmi: { uuid: BAD_CARD } });
    const request = await world.concluded(world.openCode("matmul"));
    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.counts.pods).toBe(1);
  });

  it.concurrent("whose nvidia-smi names another GPU than RunPod gets no runner either", async (test) => {
    const world = await life(test);
    world.runpod.nextPod({ nvidiaSmi: { name: "NVIDIA GeForce RTX 3060" } });
    const request = await world.concluded(world.openCode("matmul"));
    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.tried[0]?.answer).toContain("gpu-name");
    const first = world.github.books.runners.filter((entry) => entry.name.endsWith("-r1-1")).map((entry) => entry.what);
    expect(first).not.toContain("connected");
  });
});

describe.concurrent("the runner goes to a stranger", () => {
  const OTHER = ".github/workflows/other.yml";

  it.concurrent("the pod is deleted at once, and the request goes on with a new attempt", async (test) => {
    const world = await life(test);
    const { github, repository } = world;
    // The GPU job waits for a hosted one until the stranger's is there: so long the label has no job of ours.
    const taking = async (): Promise<"success"> => {
      while (!github.books.jobs.some((job) => job.name === "Take it")) await new Promise((go) => setTimeout(go, 20));
      return "success";
    };
    const plain = executeScript((sha) => repository.filesAt(sha));
    const slowly: WorkflowScript = {
      ...plain,
      plan: (context) => ({
        jobs: [
          { name: "Hosted", steps: [{ name: "Wait", perform: taking }] },
          ...plain.plan(context).jobs.map((job) => ({ ...job, needs: ["Hosted"] })),
        ],
      }),
    };
    github.setWorkflowScript(EXECUTE, slowly);
    repository.commit({ files: { [OTHER]: "name: Other\n" } });
    const label = { text: "none" };
    github.setWorkflowScript(OTHER, {
      name: "Other",
      on: ["workflow_dispatch"],
      plan: () => ({
        jobs: [{ name: "Take it", runsOn: ["self-hosted", label.text], steps: [{ name: "Mine", run: "sleep 20" }] }],
      }),
    });
    const head = world.openCode("matmul");
    const renting = await world.until(
      head,
      "an attempt with a pod",
      ({ state }) => state.kind === "provisioning" && (state.attempt?.pod ?? null) !== null,
    );
    label.text = renting.state.kind === "provisioning" ? (renting.state.attempt?.label ?? "") : "";
    repository.dispatchWorkflow(OTHER, "mira");

    const request = await world.concluded(head);
    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.counts.pods).toBe(2);
    const acts = world.audits();
    expect(acts.find((entry) => entry.act === "pod.stranger")).toMatchObject({ reason: "attempt-strangers-job" });
    // The webhook did it: the job began on the pod's runner, and the pod was gone before that job could have ended.
    const taken = github.books.jobs.find((job) => job.name === "Take it" && job.what === "in_progress");
    const first = world.runpod.pods()[0];
    expect(taken?.runnerName).toMatch(/-r1[a-z]{5}-1$/);
    expect(first?.releasedAtMs ?? Infinity).toBeLessThan((taken?.at ?? 0) + 10_000);
    expect(allGone(world)).toBe(true);
  });
});

describe.concurrent("a rejected attempt whose runner is busy", () => {
  it.concurrent("loses its pod, then its run, and is followed by another", async (test) => {
    const world = await life(test);
    const { github, runpod } = world;
    runpod.nextPod({ assignedGpuId: "NVIDIA GeForce RTX 3060" });
    github.faults.next(
      { method: "DELETE", path: /\/actions\/runners\/\d+$/ },
      { status: 422, body: { message: 'Runner "gpu-gate" is currently running a job.' } },
    );
    const request = await world.concluded(world.openCode("matmul"));

    expect(verdictOf(request)).toMatchObject({ kind: "passed", reason: "tests-passed" });
    expect(request.counts.pods).toBe(2);
    expect(world.audits().some((entry) => entry.act === "runner.busy")).toBe(true);
    const [first] = github.books.dispatches.filter((entry) => entry.workflowPath === EXECUTE);
    const cancelled = github.books.runs.find((run) => run.runId === first?.runId && run.what === "cancel-requested");
    const gone = runpod.pods()[0]?.releasedAtMs ?? Infinity;
    expect(cancelled?.at).toBeGreaterThanOrEqual(gone);
    expect(allGone(world)).toBe(true);
  });
});

/** Sees the environment of every create. */
function seeing(seen: Record<string, string>[]) {
  const body = z.object({ env: z.record(z.string(), z.string()) });
  return (next: FetchLike): FetchLike =>
    async (input, init) => {
      if (init?.method === "POST" && input.endsWith("/v2/pods") && typeof init.body === "string") {
        seen.push(body.parse(JSON.parse(init.body)).env);
      }
      return next(input, init);
    };
}

describe.concurrent("the pod's calls", () => {
  const proof = {
    podId: "",
    gpuName: "NVIDIA RTX A4000",
    gpuUuid: "GPU-1",
    vramMb: 16_000,
    driverCuda: "12.8",
    nvrtc: "12.8",
    count: 1,
    scriptHash: null,
  };

  it.concurrent("forged, crossed, repeated and late ones change nothing; a refused runner release ends the request", async (test) => {
    const seen: Record<string, string>[] = [];
    const world = await life(test, { fetch: seeing(seen) });
    // A pod without a container: only this test speaks for it.
    world.runpod.nextPod({ boot: "running-without-container" });
    const head = world.openCode("matmul");
    const renting = await world.until(
      head,
      "a pod that starts",
      ({ state }) => state.kind === "provisioning" && state.step === "start" && (state.attempt?.pod ?? null) !== null,
    );
    const attempt = renting.state.kind === "provisioning" ? renting.state.attempt : null;
    const nonces = { proof: seen[0]?.["GPU_GATE_PROOF_NONCE"] ?? "", exit: seen[0]?.["GPU_GATE_EXIT_NONCE"] ?? "" };
    const { gate } = world;
    const say = (nonce: string, podId = attempt?.pod?.id ?? "", id = attempt?.id ?? "") =>
      gate.podCall(id, nonce, { kind: "proof", proof: { ...proof, podId } });

    expect(await say("0".repeat(48))).toBe(false);
    expect(await say(nonces.exit)).toBe(false);
    expect(await say(nonces.proof, "another-pod")).toBe(false);
    expect(await say(nonces.proof, undefined, `${renting.id}-2`)).toBe(false);
    expect(await gate.podCall(attempt?.id ?? "", nonces.proof, { kind: "exit", code: 1 })).toBe(false);
    expect(world.audits().some((entry) => entry.act === "pod.proof")).toBe(false);

    expect(await say(nonces.proof)).toBe(true);
    expect(await say(nonces.proof)).toBe(false);
    expect(await gate.podCall(attempt?.id ?? "", nonces.exit, { kind: "exit", code: 7, reason: "runner-exited" })).toBe(
      true,
    );
    expect(await gate.podCall(attempt?.id ?? "", nonces.exit, { kind: "exit", code: 0, reason: "runner-exited" })).toBe(
      false,
    );

    const request = await world.concluded(head);
    expect(verdictOf(request)).toMatchObject({ kind: "infrastructure", reason: "runner-refused" });
    expect(request.counts.pods).toBe(1);
    expect(await say(nonces.proof)).toBe(false);
    expect(allGone(world)).toBe(true);
  });
});

describe.concurrent("the price that is reserved", () => {
  // The dearest card costs USD 0.27; at the ceiling one attempt would take USD 0.089.
  const config = CONFIG.replace(
    /gpu_ids: \[NVIDIA RTX A4000.*\n.*\n.*\n/,
    "gpu_ids: [NVIDIA RTX A4000, NVIDIA RTX A5000]\n",
  ).concat("budget:\n  per_run: 0.05\n");
  const reserved = Math.ceil(((0.27 * 1_000_000 + (40 * 100_000) / 730) * 200) / 3_600);

  it.concurrent("is the dearest of the plan: a cap that fits the cards fits the run", async (test) => {
    const world = await life(test, { config });
    const head = world.openCode("matmul");
    const bought = await world.until(head, "an attempt", ({ counts }) => counts.attempts === 1);
    expect("attempt" in bought.state ? bought.state.attempt?.reservedMicros : null).toBe(reserved);
    expect(verdictOf(await world.concluded(head))).toMatchObject({ kind: "passed" });
  });

  it.concurrent("is the most a pod may cost: one whose price has risen above it is given back", async (test) => {
    const world = await life(test, { config });
    world.runpod.nextPod({ cost: 0.3 });
    const request = await world.concluded(world.openCode("matmul"));
    expect(verdictOf(request)).toMatchObject({ kind: "passed" });
    expect(request.tried.map(({ answer }) => answer)).toEqual([
      expect.stringContaining("rejected: RunPod asks USD 0.3 per hour, above the limit of USD 0.2755."),
      "created",
    ]);
    expect(allGone(world)).toBe(true);
  });
});

describe.concurrent("when nothing can be bought", () => {
  const config = CONFIG.replace(
    "      gpu_ids: [NVIDIA A100 80GB PCIe]\n",
    "      gpu_ids: [NVIDIA A100 80GB PCIe]\n      max_usd_per_hour: 0.5\n",
  );

  it.concurrent("the check shows every candidate with its price and its answer, what was left out, and what to do next", async (test) => {
    const world = await life(test, { config });
    world.runpod.faults.next({ method: "POST", route: "/v2/pods" }, { kind: "capacity" }, 4);
    const head = world.openCode("matmul");
    const request = await world.concluded(head);
    expect(verdictOf(request)).toMatchObject({ kind: "infrastructure", reason: "capacity" });
    const summary = world.github.books.checkWrites.findLast((write) => write.conclusion !== null)?.summary ?? "";
    for (const id of ["NVIDIA RTX A4000", "NVIDIA RTX A5000", "NVIDIA L4", "NVIDIA A40"]) {
      expect(summary).toMatch(new RegExp(`\\| [^|]*${id} \\| \\d\\.\\d\\d \\| no capacity \\|`));
    }
    expect(summary).toMatch(/NVIDIA A100 80GB PCIe \| \d\.\d\d \| not tried: above-ceiling \|/);
    expect(summary).toMatch(/Next: .+/);
    expect(world.runpod.pods()).toHaveLength(0);
  });
});

describe.concurrent("what is the same for everybody", () => {
  it.concurrent("the contract and the catalog are read once for two pull requests", async (test) => {
    const world = await life(test);
    const heads = [world.openCode("matmul"), world.openCode("conv")];
    for (const head of heads)
      expect(verdictOf(await world.concluded(head))).toMatchObject({ kind: "passed", reason: "tests-passed" });
    const reads = world.runpod.requests().map((entry) => entry.route);
    expect(reads.filter((route) => route === "/v2/openapi.json")).toHaveLength(1);
    expect(reads.filter((route) => route === "/v2/catalog/gpus")).toHaveLength(1);
  });
});
