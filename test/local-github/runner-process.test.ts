import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StepPlan } from "../../local/github/index.ts";
import { annotationsIn, readPairs } from "../../local/machine/workflow-commands.ts";
import { PINS } from "../../local/workflow/actions.ts";
import { alive } from "./alive.ts";
import { at, listOf, openBench } from "./harness.ts";
import type { Bench, Delivered, Json } from "./harness.ts";
import { leaksOnPurpose } from "../support/watch.ts";

// The stand-in's job prints its token, to be masked by whoever keeps the log.
leaksOnPurpose(/ in what run\.sh prints$/);

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

describe("the stand-in runner with an interpreted job", () => {
  const file = ".github/workflows/gpu.yml";
  const pin = (name: string): string => `${name}@${PINS[name]?.sha ?? ""}`;
  const put = (text: string): void => void bench.repo.commit({ files: { [file]: text } });
  const job = (body: string): string =>
    `on: {workflow_dispatch: {inputs: {ids: {}, run: {}}}}\njobs:\n  gpu:\n    runs-on: [self-hosted, fresh]\n    permissions: {actions: read}\n    steps:\n${body}`;
  const shownJob = (payload: Json): boolean => at(payload, "workflow_job", "name") === "gpu";

  it("performs steps and actions as the server decides them one by one, also when answers get lost", async () => {
    const made = `on: workflow_dispatch\njobs:\n  make:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: echo from-hosted > x\n      - uses: ${pin("actions/upload-artifact")}\n        with: {name: a, path: x}\n`;
    bench.repo.commit({ files: { ".github/workflows/make.yml": made } });
    const makeId = bench.repo.dispatchWorkflow(".github/workflows/make.yml", "ada");
    await bench.hook("workflow_run", "completed");
    const ids =
      bench.repo
        .runs(".github/workflows/make.yml")[0]
        ?.artifacts.map((one) => one.id)
        .join(",") ?? "";
    put(
      job(`      - {name: Machine, id: machine, run: 'echo "cuda=12.8" >> "$GITHUB_OUTPUT"; echo SEEN=yes >> "$GITHUB_ENV"'}
      - name: Download
        id: download
        continue-on-error: true
        uses: ${pin("actions/download-artifact")}
        with: {artifact-ids: "\${{ inputs.ids }}", run-id: "\${{ inputs.run }}", github-token: "\${{ github.token }}", path: parts}
      - {name: Again, if: steps.download.outcome != 'success', run: echo again}
      - name: Use
        run: |
          echo "$(cat parts/x) \${{ steps.machine.outputs.cuda }} $SEEN $RUNNER_ENVIRONMENT $HOME \${{ github.token }}"
          echo '::stop-commands::t'; echo '::notice title=forged::no'; echo '::t::'; echo '::notice title=real::yes'
`),
    );
    bench.github.faults.next({ path: /_runner\/next/ }, "drop");
    bench.github.faults.next({ path: /_runner\/next/ }, { status: 502 }, 2);
    bench.repo.dispatchWorkflow(file, "ada", { ids, run: String(makeId) });
    const runner = start(await blob());
    const done = await bench.hook("workflow_job", "completed", shownJob);
    expect((await runner.ended).code).toBe(0);
    expect(outcome(done)).toEqual({
      conclusion: "success",
      steps: [
        ["Set up job", "success"],
        ["Machine", "success"],
        ["Download", "success"],
        ["Again", "skipped"],
        ["Use", "success"],
        ["Complete job", "success"],
      ],
    });
    const log = bench.repo.runs(file)[0]?.attempts[0]?.jobs[0]?.log ?? "";
    expect(log).toContain(`from-hosted 12.8 yes self-hosted ${folder} ***\n`);
    expect(log.match(/downloaded/g)).toHaveLength(1);
    const notes = await bench.call("GET", `${String(at(done.payload, "workflow_job", "check_run_url"))}/annotations`);
    expect(listOf(notes.body).map((note) => [note["title"], note["message"]])).toEqual([["real", "yes"]]);
    // The public API was asked with the job's own token, as the action asks it.
    expect(
      bench.github.books.requests.filter((one) => one.as === "job").map((one) => [one.operation, one.status]),
    ).toEqual([
      ["actions/list-workflow-run-artifacts", 200],
      ["actions/download-artifact", 302],
    ]);
  });

  it("stops at a cancel and still runs what always runs", async () => {
    put(
      job(
        `      - {name: Wait, run: sleep 600}\n      - {name: Never, run: echo}\n      - {name: Tidy, if: always(), run: echo tidied}\n`,
      ),
    );
    const runId = bench.repo.dispatchWorkflow(file, "ada");
    const runner = start(await blob());
    await bench.hook("workflow_job", "in_progress", shownJob);
    bench.repo.cancelRun(runId);
    const done = await bench.hook("workflow_job", "completed", shownJob);
    expect((await runner.ended).code).toBe(0);
    expect(outcome(done)).toMatchObject({ conclusion: "cancelled" });
    const shown = listOf(done.payload["workflow_job"], "steps").map((step) => [step["name"], step["conclusion"]]);
    expect(shown.slice(-3, -1)).toEqual([
      ["Never", "skipped"],
      ["Tidy", "success"],
    ]);
  });

  it("runs no step of a job that the machine's hook refuses", async () => {
    const hook = join(folder, "hook.sh");
    writeFileSync(hook, "echo '::error title=Refused::another job'; exit 1\n");
    put(job(`      - {name: Steal, if: always(), run: 'echo stolen > "$HOME/stolen"'}\n`));
    bench.repo.dispatchWorkflow(file, "mallory");
    const runner = start(await blob(), { ACTIONS_RUNNER_HOOK_JOB_STARTED: hook });
    const done = await bench.hook("workflow_job", "completed", shownJob);
    await runner.ended;
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
  });
});

describe("workflow commands", () => {
  it.each([
    ["::notice::plain", { title: null, message: "plain", level: "notice" }],
    ["::error title=Not admitted::It says: no", { title: "Not admitted", message: "It says: no", level: "failure" }],
    ["::warning file=a.rs,title=A%3A b,line=3::50%25", { title: "A: b", message: "50%", level: "warning" }],
  ])("reads %s", (line, expected) => {
    expect(annotationsIn(`noise\n${line}\nmore ::notice::not at the start`)).toEqual([expected]);
  });

  it("are none between stop-commands and its token, whatever else is printed in between", () => {
    const output =
      "::notice::a\n::stop-commands::t1\n::notice::b\n::stop-commands::t2\n::t2::\n::notice::c\n::t1::\n::notice::d";
    expect(annotationsIn(output).map((one) => one.message)).toEqual(["a", "d"]);
  });

  it.each([
    ["a=1\nb=x=y\n", { ok: true, values: { a: "1", b: "x=y" } }],
    ["a<<E\n1\n\n2\nE\nb=\r\n", { ok: true, values: { a: "1\n\n2", b: "" } }],
    ["nothing\n", { ok: false, problem: "Invalid format 'nothing'" }],
    ["a<<E\n1\n", { ok: false, problem: "Invalid value. Matching delimiter not found 'E'" }],
  ])("leave pairs in files: %j", (text, expected) => {
    expect(readPairs(text)).toEqual(expected);
  });
});
