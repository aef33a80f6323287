/** Workflow files of a tree, run for real: what GitHub would do with them, and what it must refuse. */
import { spawn } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SERVER_VARIABLES } from "../../local/github/run-event.ts";
import { MACHINE_VARIABLES } from "../../local/machine/workplace.ts";
import { PINS } from "../../local/workflow/actions.ts";
import { alive } from "./alive.ts";
import { at, openBench } from "./harness.ts";
import type { Json } from "./harness.ts";
import { takeLeaks } from "../support/watch.ts";
import {
  conclusions,
  dispatchable,
  FILE,
  jobOf,
  ofRun,
  oneJob,
  pidsIn,
  stepsOf,
  until,
  workflows,
} from "./workflows.ts";

const current = workflows();

describe("a hosted job", () => {
  it("runs its commands with exactly the documented environment", async () => {
    const { runs } = current();
    const run = await runs(oneJob(`      - run: env | cut -d= -f1 | sort | paste -sd' '\n        env: {OWN: x}\n`));
    const job = jobOf(run);
    expect(job.conclusion).toBe("success");
    // The last three are bash's own.
    const expected = [...SERVER_VARIABLES, ...MACHINE_VARIABLES, "OWN", "PWD", "SHLVL", "_"].toSorted();
    expect(job.log.trim().split(" ").toSorted()).toEqual(expected);
  });

  it("has GitHub's values in them, and the Node of this project first on PATH", async () => {
    const { folder, runs } = current();
    const run = await runs(
      oneJob(
        `      - run: |
          printf '%s\\n' "$GITHUB_REPOSITORY" "$GITHUB_SHA" "$GITHUB_REF_NAME" "$GITHUB_JOB" "$GITHUB_RUN_ID" "$RUNNER_ENVIRONMENT"
          node -p 'process.version + " " + require(process.env.GITHUB_EVENT_PATH).repository.full_name'
          pwd; cat "$GITHUB_WORKSPACE/absent" 2>/dev/null || echo empty
`,
      ),
    );
    const lines = jobOf(run).log.trim().split("\n");
    expect(lines.slice(0, 6)).toEqual(["octo/lab", run.sha, "main", "job", String(run.id), "github-hosted"]);
    expect(lines[6]).toBe(`${process.version} octo/lab`);
    expect(lines[7]).toMatch(new RegExp(`^${join(folder, "machines")}/job-\\d+/${["work", "lab", "lab"].join("/")}$`));
    expect(lines[8]).toBe("empty");
  });

  it("hands outputs, variables, paths and a summary from step to step, and outputs to the jobs that need it", async () => {
    const { runs } = current();
    const run = await runs(
      dispatchable(`  first:
    runs-on: ubuntu-24.04
    outputs: {word: "\${{ steps.say.outputs.word }}", text: "\${{ steps.say.outputs.text }}"}
    steps:
      - id: say
        run: |
          echo word=hello >> "$GITHUB_OUTPUT"
          printf 'text<<END\\none\\ntwo=2\\nEND\\n' >> "$GITHUB_OUTPUT"
          echo LEVEL=job >> "$GITHUB_ENV"
          mkdir bin; printf '#!/bin/sh\\necho tool' > bin/tool; chmod +x bin/tool
          echo "$PWD/bin" >> "$GITHUB_PATH"
          echo "# Seen" >> "$GITHUB_STEP_SUMMARY"
      - run: echo "$LEVEL \${{ env.LEVEL }} $(tool)"
      - run: echo "own $LEVEL"
        env: {LEVEL: step}
  second:
    needs: first
    runs-on: ubuntu-24.04
    steps:
      - run: echo "\${{ needs.first.result }} \${{ needs.first.outputs.word }}"
      - run: printf '%s' "$TEXT"
        env: {TEXT: "\${{ needs.first.outputs.text }}"}
`),
    );
    expect(conclusions(run)).toEqual({ first: "success", second: "success" });
    expect(jobOf(run, "first").log).toBe("job job tool\nown step\n");
    expect(jobOf(run, "first").summary).toBe("# Seen\n");
    expect(jobOf(run, "second").log).toBe("success hello\none\ntwo=2");
  });

  it("goes on after a forgiven failure, stops at another, and runs what asks to run all the same", async () => {
    const { runs, notesOf } = current();
    const run = await runs(
      dispatchable(`  job:
    runs-on: ubuntu-24.04
    steps:
      - {name: Forgiven, id: soft, continue-on-error: true, run: exit 3}
      - {name: After, if: steps.soft.outcome == 'failure', run: 'echo soft \${{ steps.soft.conclusion }}'}
      - name: Breaks
        run: echo "::error title=Sad::it broke%0Aagain" && false
      - {name: Never, run: echo never}
      - {name: Always, if: always(), run: echo always}
      - {name: On failure, if: failure(), run: echo sorry}
  next:
    needs: job
    runs-on: ubuntu-24.04
    steps: [{run: echo}]
  tidy:
    needs: job
    if: \${{ !cancelled() }}
    runs-on: ubuntu-24.04
    steps: [{run: echo}]
`),
    );
    expect(stepsOf(jobOf(run))).toEqual([
      ["Forgiven", "success"],
      ["After", "success"],
      ["Breaks", "failure"],
      ["Never", "skipped"],
      ["Always", "success"],
      ["On failure", "success"],
    ]);
    expect(jobOf(run).log).toContain("soft success\n");
    expect(notesOf(jobOf(run))).toEqual(["failure: it broke\nagain"]);
    expect(conclusions(run)).toEqual({ job: "failure", next: "skipped", tidy: "success" });
    expect(run.attempts[0]?.conclusion).toBe("failure");
  });

  it("fails a step of a bare `run` at the first failing command, and in a pipe only with `shell: bash`", async () => {
    const { runs } = current();
    const run = await runs(
      oneJob(`      - {name: Bare, run: "false | true"}
      - {name: Named, shell: bash, continue-on-error: true, id: named, run: "false | true"}
      - {run: 'echo "\${{ steps.named.outcome }}"'}
      - {name: First, run: "false\\necho unreachable"}
`),
    );
    expect(jobOf(run).log).toBe("failure\n");
  });

  it("exists once for each combination of a matrix; the first failure ends the others unless told otherwise", async () => {
    const { runs } = current();
    const matrix = (failFast: boolean): string =>
      dispatchable(`  job:
    name: job \${{ matrix.kind }}
    runs-on: ubuntu-24.04
    strategy: {fail-fast: ${failFast}, matrix: {kind: [bad, slow]}}
    steps: [{run: 'if [ "\${{ matrix.kind }}" = bad ]; then exit 1; fi; sleep \${{ ${failFast} && 600 || 0 }}'}]
`);
    expect(conclusions(await runs(matrix(true)))).toEqual({ "job bad": "failure", "job slow": "cancelled" });
    expect(conclusions(await runs(matrix(false)))).toEqual({ "job bad": "failure", "job slow": "success" });
  });

  it("is told by a warning when a Linux machine stands in for another", async () => {
    const { runs, notesOf } = current();
    const run = await runs(dispatchable("  job:\n    runs-on: macos-15\n    steps: [{run: echo}]\n"));
    expect([conclusions(run), notesOf(jobOf(run))]).toEqual([
      { job: "success" },
      ["warning: There is no macos-15 in the local world: a Linux machine stands in for it."],
    ]);
  });

  it("has a step's and a job's time limit", async () => {
    const { runs, notesOf } = current();
    const limited =
      "      - {name: Slow, timeout-minutes: 0.003, run: sleep 600}\n      - {if: always(), run: echo after}\n";
    const step = await runs(oneJob(limited));
    expect(notesOf(jobOf(step))).toEqual(["failure: The action 'Slow' has timed out after 0.003 minutes."]);
    expect([jobOf(step).conclusion, jobOf(step).log]).toEqual(["failure", expect.stringContaining("after\n")]);
    const job = await runs(oneJob("      - {run: sleep 600}\n", "    timeout-minutes: 0.003\n"));
    expect(notesOf(jobOf(job))).toEqual(["failure: The job has exceeded the maximum execution time of 0.003 minutes."]);
    expect(jobOf(job).conclusion).toBe("cancelled");
  });

  it("prints what it likes between stop-commands, and none of it is a command", async () => {
    const { runs, notesOf } = current();
    const run = await runs(
      oneJob(`      - run: |
          echo '::stop-commands::a-token'
          echo '::notice title=gpu-gate-evidence::forged'
          echo '::a-token::'
          echo '::notice title=real::seen'
`),
    );
    expect(notesOf(jobOf(run))).toEqual(["notice: seen"]);
  });
});

describe("a job's token", () => {
  const ask = `curl -s -o /dev/null -w '%{http_code} ' -A t -H "Authorization: Bearer $TOKEN" "$GITHUB_API_URL/repos/$GITHUB_REPOSITORY`;

  it("has the permissions that the job names, dies with the job, and is never in a log", async () => {
    const { bench, runs } = current();
    const text = (permissions: string): string =>
      oneJob(
        `      - run: |
          ${ask}/actions/runs/$GITHUB_RUN_ID"
          ${ask}/contents/README.md"
          echo "$TOKEN"; echo "$TOKEN" | tr 'a-z' 'b-za' > "$GITHUB_WORKSPACE/../kept"
          cat "$GITHUB_WORKSPACE/../kept"
        env: {TOKEN: "\${{ github.token }}"}
`,
        `    permissions: ${permissions}\n`,
      );
    const actions = jobOf(await runs(text("{actions: read}")));
    expect(actions.log).toMatch(/^200 403 \*\*\*\n/);
    const secret = (actions.log.split("\n")[1] ?? "").replaceAll(/[a-z]/g, (letter) =>
      letter === "a" ? "z" : String.fromCodePoint((letter.codePointAt(0) ?? 0) - 1),
    );
    const later = await bench.raw("GET", "/repos/octo/lab/actions/runs", {
      headers: { authorization: `Bearer ${secret}` },
    });
    expect(later.status).toBe(401);
    expect(jobOf(await runs(text("{contents: read}"))).log).toMatch(/^403 200 /);
    expect(jobOf(await runs(text("{}"))).log).toMatch(/^403 403 /);
    // The job prints it on purpose: the one place is its shell, which stands before what masks its log.
    expect(takeLeaks().filter((leak) => !/ in what \w*sh prints$/.test(leak))).toEqual([]);
  });
});

describe("a file that is not understood", () => {
  const good = oneJob("      - run: echo\n");

  it.each([
    ["an unknown key", good.replace("    runs-on", "    container: x\n    runs-on"), 5, "the key 'container'"],
    [
      "an unlisted action",
      oneJob(`      - uses: actions/setup-node@${"a".repeat(40)}\n`),
      7,
      "'actions/setup-node@aaaa",
    ],
    ["an action by its tag", oneJob("      - uses: actions/checkout@v6\n"), 7, "'actions/checkout@v6' is not one"],
    [
      "another commit of an action",
      oneJob(`      - uses: actions/checkout@${"b".repeat(40)}\n`),
      7,
      `is another commit of it than the one performed here, ${PINS["actions/checkout"]?.sha ?? "?"}`,
    ],
  ])("%s ends the run as startup_failure, with file and line and without a job", async (_what, text, line, message) => {
    const { bench, runs } = current();
    const run = await runs(text);
    const [attempt] = run.attempts;
    expect([attempt?.conclusion, attempt?.jobs]).toEqual(["startup_failure", []]);
    expect(attempt?.annotations).toMatchObject([
      { path: FILE, startLine: line, level: "failure", title: "Invalid workflow file" },
    ]);
    expect(attempt?.annotations[0]?.message).toContain(`${FILE}:${line}:`);
    expect(attempt?.annotations[0]?.message).toContain(message);
    const booked = bench.github.books.runs.findLast((one) => one.runId === run.id);
    expect([booked?.conclusion, booked?.problems]).toEqual(["startup_failure", [attempt?.annotations[0]?.message]]);
  });

  it("is started by the events it names, so that nobody takes it for a workflow that had nothing to do", async () => {
    const { bench, put } = current();
    const broken = `name: CI\non: [push]\ndefaults: {}\njobs: {}\n`;
    put(broken);
    const told = await bench.hook("workflow_run", "completed");
    expect([at(told.payload, "workflow_run", "event"), at(told.payload, "workflow_run", "conclusion")]).toEqual([
      "push",
      "startup_failure",
    ]);
    bench.repo.openPullRequest({ author: "ada", files: { "x.txt": "x\n" } });
    await bench.hook("pull_request", "opened");
    await bench.github.webhooks.settled();
    expect(bench.repo.runs(FILE).map((run) => run.event)).toEqual(["push"]);
  });
});

describe("triggers and inputs", () => {
  const text = `name: W
run-name: w \${{ inputs.word }} \${{ github.event_name }} \${{ github.event.pull_request.number }}
on:
  workflow_dispatch:
    inputs: {word: {required: true, type: string}, many: {type: number, default: 2}}
  pull_request: {types: [opened]}
  push: {branches: [main]}
jobs:
  job:
    runs-on: ubuntu-24.04
    steps: [{run: 'echo "\${{ inputs.word }} \${{ inputs.many == 2 }}"'}]
`;

  it("name the run, and reach its commands", async () => {
    const { bench, runs } = current();
    const run = await runs(text, { word: "hi" });
    expect([run.name, run.displayTitle, jobOf(run).log]).toEqual(["W", "w hi workflow_dispatch ", "hi true\n"]);
    const shown = await bench.call("GET", `/repos/octo/lab/actions/workflows/w.yml`);
    expect(at(shown.body, "name")).toBe("W");
  });

  it("are refused at the dispatch when they do not fit the file", async () => {
    const { bench, put } = current();
    put(text);
    put(
      dispatchable("  job:\n    runs-on: ubuntu-24.04\n    steps: [{run: echo}]\n").replace(
        "workflow_dispatch",
        "push",
      ),
      ".github/workflows/p.yml",
    );
    const asked = (file: string, inputs: Json) =>
      bench.call("POST", `/repos/octo/lab/actions/workflows/${file}/dispatches`, { ref: "main", inputs });
    const answers = [
      await asked("w.yml", {}),
      await asked("w.yml", { word: "x", other: "y" }),
      await asked("p.yml", {}),
    ];
    expect(answers.map((answer) => [answer.status, at(answer.body, "message")])).toEqual([
      [422, "Required input 'word' not provided"],
      [422, 'Unexpected inputs provided: ["other"]'],
      [422, "Workflow does not have 'workflow_dispatch' trigger"],
    ]);
  });

  it("start a pull request's run once, on its test merge and with its payload", async () => {
    const { bench, put } = current();
    put(text);
    await bench.hook("workflow_run", "completed");
    const pull = bench.repo.openPullRequest({ author: "ada", files: { "x.txt": "x\n" } });
    const opened = await bench.hook("workflow_run", "completed");
    expect(at(opened.payload, "workflow_run", "display_title")).toBe(`w  pull_request ${pull.number}`);
    bench.repo.push(pull.number, { files: { "x.txt": "y\n" } });
    await bench.hook("pull_request", "synchronize");
    await bench.github.webhooks.settled();
    const events = bench.repo.runs(FILE).map((run) => run.event);
    expect(events).toEqual(["push", "pull_request"]);
    expect(bench.repo.runs(FILE)[1]?.sha).not.toBe(pull.headSha);
  });
});

describe("a cancel", () => {
  it("ends the running command and what it started, and still runs what always runs", async () => {
    const { bench, folder, put, dispatch, ended } = current();
    put(
      oneJob(`      - name: Wait
        run: |
          sleep 600 & echo $! > "${folder}/background"
          sleep 600
      - {name: Never, run: echo never}
      - {name: Tidy, if: always(), run: echo tidied}
`),
    );
    const id = dispatch();
    await bench.hook("workflow_job", "in_progress");
    const pids = await pidsIn(join(folder, "background"));
    bench.repo.cancelRun(id);
    const run = await ended(id);
    expect([run.attempts[0]?.conclusion, jobOf(run).conclusion, stepsOf(jobOf(run))]).toEqual([
      "cancelled",
      "cancelled",
      [
        ["Wait", "cancelled"],
        ["Never", "skipped"],
        ["Tidy", "success"],
      ],
    ]);
    expect(pids.filter(alive)).toEqual([]);
    expect(readdirSync(join(folder, "machines"))).toEqual(["bin"]);
  });

  it("kills at last a command that does not listen", async () => {
    const { folder } = current();
    const own = await openBench({ hosted: { folder: join(folder, "other") }, timing: { cancelHardMs: 200 } });
    own.repo.commit({
      files: {
        [FILE]: oneJob(`      - run: trap '' INT TERM; echo $$ > "${folder}/deaf"; while :; do sleep 0.1; done\n`),
      },
    });
    const id = own.repo.dispatchWorkflow(FILE, "ada");
    const pids = await pidsIn(join(folder, "deaf"));
    own.repo.cancelRun(id);
    await own.hook("workflow_run", "completed", ofRun(id));
    await until(() => !pids.some(alive));
    await own.close();
    expect(pids).toHaveLength(1);
  });
});

describe("concurrency groups", () => {
  const text = (more: string): string =>
    oneJob(`      - run: while [ ! -e "${current().folder}/go" ]; do sleep 0.05; done\n`).replace(
      "jobs:",
      `concurrency: {group: "g-\${{ github.ref_name }}"${more}}\njobs:`,
    );
  const states = (): unknown =>
    current()
      .bench.repo.runs(FILE)
      .map((run) => run.attempts[0]?.conclusion ?? run.attempts[0]?.status);

  it("let one run at a time go; without `queue: max` a newer waiter takes the place of an older", async () => {
    const { bench, put, dispatch, ended } = current();
    put(text(""));
    const first = dispatch();
    await bench.hook("workflow_job", "in_progress");
    const second = dispatch();
    await until(() => JSON.stringify(states()).includes("pending"));
    const third = dispatch();
    await ended(second);
    expect(states()).toEqual(["in_progress", "cancelled", "pending"]);
    writeFileSync(join(current().folder, "go"), "");
    await ended(first);
    await ended(third);
    expect(states()).toEqual(["success", "cancelled", "success"]);
  });

  it("with `queue: max` drop nobody, up to a hundred waiters", async () => {
    const { put, dispatch, ended } = current();
    put(text(", queue: max"));
    const ids = Array.from({ length: 101 }, () => dispatch());
    await until(() => JSON.stringify(states()).split("pending").length === 101);
    await ended(dispatch());
    expect(states()).toEqual(["in_progress", ...ids.slice(1).map(() => "pending"), "cancelled"]);
    for (const id of ids.slice(2)) current().bench.repo.cancelRun(id);
    writeFileSync(join(current().folder, "go"), "");
    for (const id of ids) await ended(id);
    expect(states()).toEqual(["success", "success", ...ids.slice(1).map(() => "cancelled")]);
  });

  it("with `cancel-in-progress` end the older run", async () => {
    const { bench, put, dispatch, ended } = current();
    put(text(", cancel-in-progress: true"));
    const first = dispatch();
    await bench.hook("workflow_job", "in_progress");
    const second = dispatch();
    await ended(first);
    writeFileSync(join(current().folder, "go"), "");
    await ended(second);
    expect(states()).toEqual(["cancelled", "success"]);
  });
});

describe("close", () => {
  it("leaves no process and no folder of a job that runs", async () => {
    const { folder } = current();
    const own = await openBench({ hosted: { folder: join(folder, "closing") } });
    own.repo.commit({
      files: {
        [FILE]: oneJob(`      - run: trap '' INT; sleep 600 & echo $! $$ > "${folder}/pids"; wait; sleep 600\n`),
      },
    });
    own.repo.dispatchWorkflow(FILE, "ada");
    const pids = await pidsIn(join(folder, "pids"));
    await own.close();
    expect([pids.length, pids.filter(alive)]).toEqual([2, []]);
    expect(existsSync(join(folder, "closing"))).toBe(false);
    expect(own.github.books.problems).toEqual([]);
  });

  it("is not needed to end a job's commands: the death of the server is enough", async () => {
    const { folder } = current();
    const text = oneJob(`      - run: sleep 600 & echo $! $$ > "${folder}/pids"; wait\n`);
    const files = { [FILE]: text };
    const server = [
      `import { startLocalGitHub } from ${JSON.stringify(new URL("../../local/github/index.ts", import.meta.url).href)};`,
      `const github = await startLocalGitHub({ webhookSecret: "x", hosted: { folder: ${JSON.stringify(join(folder, "dying"))} } });`,
      `const repo = github.createRepository({ owner: "o", name: "r", files: ${JSON.stringify(files)} });`,
      `repo.dispatchWorkflow(${JSON.stringify(FILE)}, "ada");`,
    ].join("\n");
    const child = spawn(process.execPath, ["--input-type=module", "-e", server], { stdio: "ignore" });
    const gone = new Promise((resolve) => child.once("exit", resolve));
    const pids = await pidsIn(join(folder, "pids"));
    expect(pids.filter(alive)).toHaveLength(2);
    child.kill("SIGKILL");
    await gone;
    await until(() => pids.every((pid) => !alive(pid)));
  });
});
