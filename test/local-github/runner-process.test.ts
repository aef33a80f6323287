import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StepPlan } from "../../local/github/index.ts";
import { annotationsIn } from "../../local/runner/command.ts";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench, Delivered } from "./harness.ts";

const execute = ".github/workflows/execute.yml";
const runScript = new URL("../../local/runner/run.sh", import.meta.url).pathname;

let bench: Bench;
let folder: string;
beforeEach(async () => {
  bench = await openBench({ timing: { runnerLostMs: 20_000, cancelHardMs: 40_000 } });
  folder = mkdtempSync(join(tmpdir(), "gpu-gate-runner-"));
});
afterEach(async () => {
  await bench.close();
  rmSync(folder, { recursive: true, force: true });
});

function steps(plan: readonly StepPlan[]): void {
  bench.github.setWorkflowScript(execute, {
    name: "Execute",
    on: ["workflow_dispatch"],
    plan: () => ({ jobs: [{ name: "gpu", runsOn: ["self-hosted", "fresh"], steps: plan }] }),
  });
}

async function blob(): Promise<string> {
  const reply = await bench.call("POST", "/repos/octo/lab/actions/runners/generate-jitconfig", {
    name: "pod",
    runner_group_id: 1,
    labels: ["self-hosted", "fresh"],
  });
  return String(at(reply.body, "encoded_jit_config"));
}

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

function start(jit: string, env: Record<string, string> = {}): { ended: Promise<Ended>; pid: number } {
  const child = spawn(runScript, ["--jitconfig", jit], {
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      HOME: folder,
      GPU_GATE_LOCAL_NODE: process.execPath,
      ...env,
    } as unknown as NodeJS.ProcessEnv,
    stdio: ["ignore", "pipe", "pipe"],
    // A session of its own, as a container's first process has.
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => resolve({ code, output }));
  });
  return { ended, pid: child.pid ?? 0 };
}

function outcome(done: Delivered): unknown {
  const job = done.payload["workflow_job"];
  return {
    conclusion: at(job, "conclusion"),
    steps: listOf(job, "steps").map((step) => [step["name"], step["conclusion"]]),
  };
}

describe("the stand-in runner", () => {
  it("takes one job, runs its commands with GitHub's variables, reports notices, and ends with 0", async () => {
    steps([
      {
        name: "Look around",
        env: { GREETING: "hello", JOB_TOKEN: "${{ github.token }}" },
        run: [
          'printf "%s|" "$GREETING" "$GITHUB_REPOSITORY" "$GITHUB_REPOSITORY_ID" "$GITHUB_RUN_ID" "$GITHUB_RUN_ATTEMPT" "$GITHUB_WORKFLOW_REF" "$GITHUB_SHA" > "$HOME/seen"',
          'curl -sf -A test -H "Authorization: Bearer $JOB_TOKEN" -o "$HOME/run.json" "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"',
          'echo "COUNT=12" >> "$GITHUB_ENV"',
        ].join("\n"),
      },
      { name: "Test", run: 'echo "::notice title=GPU tests::$COUNT tests%2C all passed"' },
    ]);
    const runId = bench.repo.dispatchWorkflow(execute, "ada");
    const runner = start(await blob());
    const done = await bench.hook("workflow_job", "completed");
    const ended = await runner.ended;
    expect(outcome(done)).toEqual({
      conclusion: "success",
      steps: [
        ["Set up job", "success"],
        ["Look around", "success"],
        ["Test", "success"],
        ["Complete job", "success"],
      ],
    });
    expect(ended.code).toBe(0);
    const expected = [
      "hello",
      "octo/lab",
      bench.repo.id,
      runId,
      1,
      `octo/lab/${execute}@refs/heads/main`,
      bench.repo.sha(),
    ];
    expect(readFileSync(join(folder, "seen"), "utf8")).toBe(`${expected.join("|")}|`);
    expect(at(JSON.parse(readFileSync(join(folder, "run.json"), "utf8")), "id")).toBe(runId);
    const notes = await bench.call("GET", `${String(at(done.payload, "workflow_job", "check_run_url"))}/annotations`);
    expect(listOf(notes.body)).toMatchObject([
      { title: "GPU tests", message: "12 tests, all passed", annotation_level: "notice" },
    ]);
    expect(bench.github.books.runners.map((one) => one.what)).toEqual([
      "registered",
      "connected",
      "job-started",
      "job-ended",
      "removed",
    ]);
  });

  it("stops after a failed command, runs what always runs, and still ends with 0", async () => {
    steps([
      { name: "Break", run: "false; echo unreachable > $HOME/unreachable" },
      { name: "Never", run: "echo never > $HOME/never" },
      { name: "Report", always: true, run: "echo done > $HOME/report" },
    ]);
    bench.repo.dispatchWorkflow(execute, "ada");
    const runner = start(await blob());
    const done = await bench.hook("workflow_job", "completed");
    expect((await runner.ended).code).toBe(0);
    expect(outcome(done)).toMatchObject({
      conclusion: "failure",
      steps: [
        ["Set up job", "success"],
        ["Break", "failure"],
        ["Never", "skipped"],
        ["Report", "success"],
        ["Complete job", "success"],
      ],
    });
    expect(readFileSync(join(folder, "report"), "utf8")).toBe("done\n");
    expect(existsSync(join(folder, "never"))).toBe(false);
    expect(existsSync(join(folder, "unreachable"))).toBe(false);
  });

  it("fails a job its job-started hook refuses, before the first step, and gives the hook the job's identity", async () => {
    const hook = join(folder, "hook.sh");
    writeFileSync(
      hook,
      '[ "$GITHUB_RUN_ID" = 1 ] || { echo "::error title=Refused::run $GITHUB_RUN_ID of $GITHUB_REPOSITORY_ID"; exit 1; }\n',
    );
    steps([{ name: "Steal", always: true, run: "echo stolen > $HOME/stolen" }]);
    const runId = bench.repo.dispatchWorkflow(execute, "mallory");
    const runner = start(await blob(), { ACTIONS_RUNNER_HOOK_JOB_STARTED: hook });
    const done = await bench.hook("workflow_job", "completed");
    expect((await runner.ended).code).toBe(0);
    expect(outcome(done)).toEqual({
      conclusion: "failure",
      steps: [
        ["Set up job", "success"],
        ["Set up runner", "failure"],
        ["Steal", "skipped"],
        ["Complete job", "success"],
      ],
    });
    expect(existsSync(join(folder, "stolen"))).toBe(false);
    const notes = await bench.call("GET", `${String(at(done.payload, "workflow_job", "check_run_url"))}/annotations`);
    expect(listOf(notes.body)[0]?.["message"]).toBe(`run ${runId} of ${bench.repo.id}`);
  });

  it("ends the command and what it started when the run is cancelled", async () => {
    steps([{ name: "Wait", run: 'sleep 600 & echo $! > "$HOME/child"; echo "::notice::started"; wait' }]);
    const runId = bench.repo.dispatchWorkflow(execute, "ada");
    const runner = start(await blob());
    await bench.hook("workflow_job", "in_progress");
    bench.repo.cancelRun(runId);
    const done = await bench.hook("workflow_job", "completed");
    expect((await runner.ended).code).toBe(0);
    expect(outcome(done)).toMatchObject({ conclusion: "cancelled" });
    let child = 0;
    try {
      child = Number(readFileSync(join(folder, "child"), "utf8"));
    } catch {
      // Cancelled before the command got that far.
    }
    expect(child === 0 || !alive(child)).toBe(true);
  });

  it("rides out lost and failing answers in the middle of its job and at its end", async () => {
    steps([{ name: "Work", run: "true" }]);
    bench.repo.dispatchWorkflow(execute, "ada");
    bench.github.faults.next({ path: /_runner\/session/ }, { status: 502 });
    bench.github.faults.next({ path: /_runner\/steps/ }, "drop", 2);
    bench.github.faults.next({ path: /_runner\/complete/ }, { status: 503 }, 2);
    const runner = start(await blob());
    const done = await bench.hook("workflow_job", "completed");
    expect([(await runner.ended).code, at(done.payload, "workflow_job", "conclusion")]).toEqual([0, "success"]);
  });

  it("keeps its commands in the session it was started in, so that the end of the machine is the end of them", async () => {
    steps([{ name: "Look", run: "cut -d' ' -f5,6 /proc/self/stat > $HOME/ids" }]);
    bench.repo.dispatchWorkflow(execute, "ada");
    const runner = start(await blob());
    await bench.hook("workflow_job", "completed");
    await runner.ended;
    const [group, session] = readFileSync(join(folder, "ids"), "utf8").trim().split(" ").map(Number);
    expect(session).toBe(runner.pid);
    expect(group).not.toBe(runner.pid);
  });

  it("says what is wrong and ends with 1 when it cannot become a runner", async () => {
    const used = await blob();
    await bench.raw("POST", "/_runner/session", { body: JSON.stringify({ jitConfig: used }) });
    const [twice, nonsense] = await Promise.all([start(used).ended, start("bm8=").ended]);
    expect([twice.code, nonsense.code]).toEqual([1, 1]);
    expect(twice.output).toMatch(/used already/);
    expect(nonsense.output).toMatch(/JIT config is not/);
    expect(twice.output).not.toContain(used);
  });
});

function alive(pid: number): boolean {
  try {
    // A killed process whose parent has gone may stay as a zombie for a moment; that is not alive.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

describe("workflow commands", () => {
  it.each([
    ["::notice::plain", { title: null, message: "plain", level: "notice" }],
    ["::error title=Not admitted::It says: no", { title: "Not admitted", message: "It says: no", level: "failure" }],
    ["::warning file=a.rs,title=A%3A b,line=3::50%25", { title: "A: b", message: "50%", level: "warning" }],
  ])("reads %s", (line, expected) => {
    expect(annotationsIn(`noise\n${line}\nmore ::notice::not at the start`)).toEqual([expected]);
  });
});
