import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import type { GpuReport } from "../../local/runpod/types.ts";
import { startScriptSha256 } from "../../pod/script.ts";
import { podExitReasons, podExitSchema, podProofSchema } from "../../shared/runpod/pod-words.ts";
import { canaries, healthyGpu, removeFolders, runPod } from "./harness.ts";
import type { PodOptions, PodRun } from "./harness.ts";

const isRoot = process.getuid?.() === 0;
const secrets = Object.values(canaries);
const base = "/pod/v1/9007199254740993/r1-a1";

afterEach(removeFolders);

function leaks(text: string, among: readonly string[] = secrets): string[] {
  return among.filter((secret) => text.includes(secret));
}

function exitCall(run: PodRun) {
  const call = run.calls.find((candidate) => candidate.path === `${base}/exit`);
  return call && { bearer: call.bearer, ...podExitSchema.parse(call.body) };
}

describe("a good machine", () => {
  it("proves its GPU, then starts the runner with the JIT config, then says how it ended", async () => {
    const run = await runPod({ runner: "exit 3" });
    expect(run.calls.map((call) => [call.path, call.bearer])).toEqual([
      [`${base}/proof`, canaries.proof],
      [`${base}/exit`, canaries.exit],
    ]);
    expect(podProofSchema.parse(run.calls[0]?.body)).toEqual({
      sinceStart: expect.any(Number),
      podId: "pod12345",
      gpuName: healthyGpu.name,
      gpuUuid: healthyGpu.uuid,
      gpuCount: 1,
      vramMb: healthyGpu.memoryMb,
      driver: healthyGpu.driver,
      cuda: "12.8",
      nvrtc: "12.8",
      nvrtcLoaded: null,
      smoke: "off",
      scriptSha256: startScriptSha256,
    });
    expect(run.runner?.args).toBe(`--jitconfig ${canaries.jit}`);
    // Once the card is read, every last word names it: a machine that fails is known by it.
    expect(exitCall(run)).toEqual({
      bearer: canaries.exit,
      sinceStart: expect.any(Number),
      reason: "runner-exited",
      code: 3,
      gpuUuid: healthyGpu.uuid,
    });
    expect(run.code).toBe(3);
  });

  it("bought with the word to keep it: says how the runner ended and stays until it is told to go", async () => {
    const run = await runPod({
      runner: "exit 3",
      env: { GPU_GATE_KEEP: "true" },
      // RunPod ends a container so; the whole group, as a container has nothing else.
      onLine: (line, child) => {
        if (line.includes("stays for debugging") && child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
      },
    });
    expect(exitCall(run)).toMatchObject({ reason: "runner-exited", code: 3 });
    expect(run.output).toContain("stays for debugging until the gate deletes it");
    // The signal ended it, not the runner.
    expect(run.code).toBe(0);
  });

  it("says loudly that the smoke test is switched off", async () => {
    expect((await runPod()).output).toContain("WARNING: THE SMOKE TEST IS SWITCHED OFF");
  });

  it("gives the runner an environment that is let through by name", async () => {
    const run = await runPod({ env: { HTTP_PROXY: "http://x", BASH_ENV: "/x", ImageOS: "ubuntu24", SECRET: "s" } });
    const names = run.runner?.env.map((entry) => entry.split("=")[0]).sort();
    // PWD and SHLVL are the stub runner's own bash.
    const allowed = [
      "ACTIONS_RUNNER_HOOK_JOB_STARTED",
      "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE",
      "HOME",
      "ImageOS",
      "PATH",
      "PWD",
      "SHLVL",
    ];
    expect(names).toEqual((isRoot ? [...allowed, "RUNNER_ALLOW_RUNASROOT"] : allowed).sort());
  });

  it("prints no secret", async () => {
    const runs = [
      await runPod(),
      await runPod({ gpu: { mode: "error" } }),
      await runPod({ env: { GPU_GATE_URL: "" } }),
    ];
    expect(leaks(runs.map((run) => run.output).join("\n"))).toEqual([]);
  });
});

describe.skipIf(!existsSync("/proc/self/environ"))("secrets while a job runs (needs /proc)", () => {
  /** Looks at every process of the pod's session while the runner is up, then lets the runner go on. */
  async function lookInside(options: PodOptions = {}) {
    const environments: string[] = [];
    const openFiles: string[] = [];
    const run = await runPod({
      ...options,
      runner: 'read -r _ <"$HOME/go-on"',
      prepare: (podDir) => execFileSync("mkfifo", ["-m", "666", join(podDir, "home", "runner", "go-on")]),
      onLine: (line, child, podDir) => {
        if (!line.startsWith("runner up")) return;
        const [, , own = "", , parent = ""] = line.split(" ");
        for (const pid of [own, parent]) environments.push(readFileSync(`/proc/${pid}/environ`, "utf8"));
        openFiles.push(execFileSync("ls", ["-l", `/proc/${parent}/fd`], { encoding: "utf8" }));
        expect(Number(parent)).toBe(child.pid);
        writeFileSync(join(podDir, "home", "runner", "go-on"), "\n");
      },
    });
    return { run, environments, openFiles };
  }

  it.each([
    { who: "the user running the tests", options: {} },
    ...(isRoot ? [{ who: "user 1001", options: { uid: 1001 } }] : []),
  ])("are in nobody's environment, PID 1's included, as $who", async ({ options }) => {
    const { run, environments, openFiles } = await lookInside(options);
    expect(environments).toHaveLength(2);
    expect(leaks(environments.join("\n"))).toEqual([]);
    expect(environments.join("\n")).not.toContain("RUNPOD_API_KEY");
    expect(openFiles.join("\n")).not.toContain("gpu-gate.");
    expect(run.runner?.uid).toBe(String(options.uid ?? process.getuid?.()));
    expect(run.code).toBe(0);
  });

  it("have left no file behind", async () => {
    const run = await runPod();
    const found = spawnSync("grep", ["-rlF", canaries.proof, "/dev/shm", run.podDir], { encoding: "utf8" });
    expect(found.stdout).toBe("");
  });

  it.runIf(isRoot)("run as root: the runner becomes the owner of its files", async () => {
    const run = await runPod({
      prepare: (podDir) => {
        execFileSync("chown", ["-R", "1001:1001", join(podDir, "home")]);
        execFileSync("chmod", ["-R", "a+rwX", join(podDir, "..")]);
      },
    });
    expect(run.runner?.uid).toBe("1001");
    expect(run.runner?.env).not.toContain("RUNNER_ALLOW_RUNASROOT=1");
    expect(leaks(run.runner?.env.join("\n") ?? "")).toEqual([]);
  });
});

describe("a machine that is not what was paid for", () => {
  const bad: { what: string; gpu?: Partial<GpuReport>; env?: PodOptions["env"]; reason: string }[] = [
    { what: "a driver below 12.6", gpu: { cuda: "12.4" }, reason: "driver-too-old" },
    {
      what: "a driver below the configured minimum",
      env: { GPU_GATE_MIN_DRIVER_CUDA: "12.9" },
      reason: "driver-too-old",
    },
    {
      what: "a minimum below the floor",
      gpu: { cuda: "12.5" },
      env: { GPU_GATE_MIN_DRIVER_CUDA: "11.0" },
      reason: "driver-too-old",
    },
    { what: "a driver without a version", gpu: { cuda: "N/A" }, reason: "driver-unreadable" },
    { what: "garbage from nvidia-smi", gpu: { mode: "garbage" }, reason: "driver-unreadable" },
    { what: "ERR! although nvidia-smi ends with 0 (N132)", gpu: { mode: "error" }, reason: "gpu-error" },
    { what: "uncorrected memory errors", gpu: { mode: "ecc" }, reason: "gpu-error" },
    { what: "no GPU", gpu: { mode: "none" }, reason: "gpu-count" },
    { what: "two GPUs", gpu: { mode: "two" }, reason: "gpu-count" },
    { what: "no nvidia-smi", gpu: { mode: "missing" }, reason: "nvidia-smi-failed" },
    { what: "another GPU (N84)", gpu: { name: "NVIDIA GeForce RTX 3070" }, reason: "gpu-name" },
    { what: "a name that only contains an expected one", gpu: { name: "NVIDIA L40" }, reason: "gpu-name" },
    { what: "too little memory", gpu: { memoryMb: 7999 }, reason: "gpu-vram" },
    { what: "a memory size that is no number", gpu: { memoryMb: Number.NaN }, reason: "driver-unreadable" },
  ];

  it.each(bad)("$what: refused as $reason, told to the gate, runner never started", async ({ gpu, env, reason }) => {
    const run = await runPod({ ...(gpu ? { gpu } : {}), ...(env ? { env } : {}) });
    expect(exitCall(run)).toMatchObject({ bearer: canaries.exit, reason, code: 1 });
    expect(run.calls).toHaveLength(1);
    expect(run.output).toContain(`REFUSED (${reason})`);
    expect(run.code).toBe(1);
    expect(run.runner).toBeNull();
  });

  it.each([
    ["GPU_GATE_URL", "ftp://gate"],
    ["GPU_GATE_REPOSITORY_ID", "12x"],
    ["GPU_GATE_RUN_ID", undefined],
    ["GPU_GATE_RUN_ATTEMPT", ""],
    ["GPU_GATE_WORKFLOW_REF", undefined],
    ["GPU_GATE_EXPECTED_GPU_NAMES", "\n"],
    ["GPU_GATE_MIN_VRAM_MB", "8 GB"],
    ["GPU_GATE_MIN_DRIVER_CUDA", "12"],
    ["GPU_GATE_STARTUP_SECONDS", "-1"],
    ["GPU_GATE_SMOKE", "maybe"],
    ["GPU_GATE_JIT_CONFIG", undefined],
    ["GPU_GATE_PROOF_NONCE", "two\nlines"],
  ])("%s = %j: refused as a broken request", async (name, value) => {
    const run = await runPod({ env: { [name]: value } });
    expect(run.output).toContain("REFUSED (bad-facts)");
    expect(run.output).toContain(name);
    expect(run.code).toBe(1);
    expect(run.runner).toBeNull();
  });

  it("without a runner script: refused as runner-missing", async () => {
    const run = await runPod({ prepare: (podDir) => rmSync(join(podDir, "home", "runner", "run.sh")) });
    expect(exitCall(run)?.reason).toBe("runner-missing");
  });

  it("knows no reason that the gate does not know", () => {
    const script = readFileSync(join(import.meta.dirname, "../../pod/start.sh"), "utf8");
    const used = [...script.matchAll(/\b(?:fail|finish) ([a-z][a-z-]+)/g)].map((match) => match[1]);
    expect(new Set(used)).toEqual(new Set(podExitReasons));
  });
});

describe("the proof", () => {
  it("is repeated until the gate takes it", async () => {
    const run = await runPod({ proofStatus: (call) => (call === 0 ? 503 : 201) });
    expect(run.calls.map((call) => call.path)).toEqual([`${base}/proof`, `${base}/proof`, `${base}/exit`]);
    const [first, second] = run.calls.map((call) => call.body as Record<string, unknown>);
    // Everything but how long the container has been up: the pause between the two is a second.
    expect(second).toEqual({ ...first, sinceStart: second?.["sinceStart"] });
    expect(podProofSchema.parse(second).sinceStart).toBeGreaterThan(podProofSchema.parse(first).sinceStart ?? 99);
    expect(run.runner).not.toBeNull();
  });

  it.each([302, 404, 500])("that is only ever answered %i starts no runner", async (status) => {
    const run = await runPod({ proofStatus: () => status, env: { GPU_GATE_STARTUP_SECONDS: "1" } });
    expect(exitCall(run)?.reason).toBe("proof-not-accepted");
    expect(run.runner).toBeNull();
    expect(run.code).toBe(1);
  });

  it("is given before the runner starts", async () => {
    const order: string[] = [];
    await runPod({
      proofStatus: () => {
        order.push("proof");
        return 200;
      },
      onLine: (line) => {
        if (line.startsWith("runner up")) order.push("runner");
      },
    });
    expect(order).toEqual(["proof", "runner"]);
  });

  it("names the script that really ran", async () => {
    const { startScript } = await import("../../pod/script.ts");
    const run = await runPod({ script: `${startScript}# changed on the way\n` });
    const proof = podProofSchema.parse(run.calls[0]?.body);
    expect(proof.scriptSha256).not.toBe(startScriptSha256);
  });
});

describe("the job-started hook (a JIT runner goes to any job with matching labels)", () => {
  const ours = {
    GITHUB_REPOSITORY_ID: "9007199254740993",
    GITHUB_RUN_ID: "77",
    GITHUB_RUN_ATTEMPT: "1",
    GITHUB_WORKFLOW_REF: "acme/widgets/.github/workflows/gpu.yml@refs/heads/main",
  };

  it("lets the job through that the pod was bought for, and nobody else's", async () => {
    const { hook, runner } = await runPod();
    expect(runner?.env).toContain(`ACTIONS_RUNNER_HOOK_JOB_STARTED=${hook}`);
    const decide = (env: Record<string, string>) =>
      spawnSync(hook, { env: { PATH: "/usr/bin:/bin", ...env } as never }).status;
    expect(decide(ours)).toBe(0);
    for (const name of Object.keys(ours)) {
      expect([name, decide({ ...ours, [name]: "9" })]).toEqual([name, 1]);
      const { [name as keyof typeof ours]: _gone, ...without } = ours;
      expect([name, decide(without)]).toEqual([name, 1]);
    }
  });

  it("lets it through when the repository was renamed or handed over since, and no other workflow or branch of it", async () => {
    const { hook } = await runPod();
    const decide = (ref: string) =>
      spawnSync(hook, { env: { PATH: "/usr/bin:/bin", ...ours, GITHUB_WORKFLOW_REF: ref } as never }).status;
    expect(decide("others/gadgets/.github/workflows/gpu.yml@refs/heads/main")).toBe(0);
    expect(decide("acme/widgets/.github/workflows/gpu.yml@refs/heads/topic")).toBe(1);
    expect(decide("acme/widgets/.github/workflows/other.yml@refs/heads/main")).toBe(1);
  });

  it("takes a workflow path with any characters as text", async () => {
    const odd = "acme/w/.github/workflows/a $(touch x) 'b\".yml@refs/heads/x;y";
    const { hook } = await runPod({ env: { GPU_GATE_WORKFLOW_REF: odd } });
    const env = { PATH: "/usr/bin:/bin", ...ours, GITHUB_WORKFLOW_REF: odd };
    expect(spawnSync(hook, { env: env as never }).status).toBe(0);
  });

  it.runIf(isRoot)("belongs to root and is writable by nobody else", async () => {
    const { hook } = await runPod();
    expect([statSync(hook).uid, statSync(hook).mode & 0o777]).toEqual([0, 0o755]);
  });

  it("that cannot be written stops everything", async () => {
    const run = await runPod({ env: { GPU_GATE_HOOK_DIR: "/proc/nowhere" } });
    expect(exitCall(run)?.reason).toBe("hook-not-installed");
    expect(run.runner).toBeNull();
  });
});

describe("an end from outside", () => {
  it("reaches the runner as SIGTERM, and the gate hears of it", async () => {
    const run = await runPod({
      runner: "sleep 60 >/dev/null 2>&1 & trap 'kill $!; exit 9' TERM; echo ready; wait",
      onLine: (line, child) => {
        if (line === "ready") child.kill("SIGTERM");
      },
    });
    expect(exitCall(run)).toMatchObject({ reason: "runner-exited", code: 9 });
    expect(run.code).toBe(9);
  });

  it("before the runner starts ends the pod as terminated", async () => {
    const run = await runPod({
      proofStatus: () => 503,
      onLine: (line, child) => {
        if (line.includes("the gate answered proof")) child.kill("SIGTERM");
      },
    });
    expect(exitCall(run)?.reason).toBe("terminated");
    expect(run.code).toBe(143);
    expect(run.runner).toBeNull();
  });
});
