/** What users would add to the shipped files: groups of jobs, environments, identity, patterns, caches in one step. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { describe, expect, it } from "vitest";
import { findFiles } from "../../local/machine/globs.ts";
import { conclusions, dispatchable, FILE, jobOf, jobsOf, oneJob, pin, stepsOf, until, workflows } from "./workflows.ts";

const current = workflows();

describe("a job's own concurrency group", () => {
  const wait = (): string => `while [ ! -e "${current().folder}/go" ]; do sleep 0.02; done`;
  const text = (more: string, run = ""): string =>
    dispatchable(
      `  job:
    runs-on: ubuntu-24.04
    concurrency: {group: "lane"${more}}
    steps:
      - run: ${wait()}
`,
      run,
    );
  const states = (): unknown =>
    current()
      .bench.repo.runs(FILE)
      .map((run) => jobsOf(run).map((job) => job.conclusion ?? job.status));

  it("with `queue: max` lets the jobs of all runs go one by one, and drops none", async () => {
    const { put, dispatch, ended, folder } = current();
    put(text(", queue: max"));
    const ids = [dispatch(), dispatch(), dispatch()];
    await until(() => JSON.stringify(states()) === '[["in_progress"],["pending"],["pending"]]');
    writeFileSync(join(folder, "go"), "");
    for (const id of ids) await ended(id);
    expect(states()).toEqual([["success"], ["success"], ["success"]]);
  });

  it("without it a newer waiter takes the place of an older", async () => {
    const { put, dispatch, ended, folder } = current();
    put(text(""));
    const ids = [dispatch(), dispatch()];
    await until(() => JSON.stringify(states()) === '[["in_progress"],["pending"]]');
    ids.push(dispatch());
    await until(() => JSON.stringify(states()) === '[["in_progress"],["cancelled"],["pending"]]');
    writeFileSync(join(folder, "go"), "");
    for (const id of ids) await ended(id);
    expect(states()).toEqual([["success"], ["cancelled"], ["success"]]);
  });

  it("that its own run holds is a deadlock, and says so", async () => {
    const { runs, notesOf } = current();
    const run = await runs(text("", "concurrency: lane\n"));
    expect(jobOf(run).conclusion).toBe("cancelled");
    expect(notesOf(jobOf(run)).join()).toContain("deadlock was detected for concurrency group 'lane'");
  });
});

describe("secrets and environments", () => {
  const show = (environment: string): string =>
    oneJob(
      `      - env: {A: "\${{ secrets.A }}", B: "\${{ secrets.B }}"}\n        run: echo "A=$A B=$B \${#B}"\n`,
      environment === "" ? "" : `    environment: ${environment}\n`,
    );

  it("give a job the repository's secrets, and an environment's only where it is named; logs show neither", async () => {
    const { bench, runs } = current();
    bench.repo.setSecret("A", "alpha");
    bench.repo.setSecret("B", "beta-environment", "sweep");
    expect(jobOf(await runs(show(""))).log).toBe("A=*** B= 0\n");
    expect(jobOf(await runs(show("sweep"))).log).toBe("A=*** B=*** 16\n");
  });

  it("an environment keeps out branches that it does not list", async () => {
    const { bench, runs, notesOf } = current();
    bench.repo.limitEnvironment("sweep", ["release"]);
    const run = await runs(show("sweep"));
    expect(notesOf(jobOf(run))).toEqual([
      'failure: Branch "main" is not allowed to deploy to sweep due to environment protection rules.',
    ]);
  });

  it("what a step asks to be masked is masked", async () => {
    const { runs } = current();
    expect(jobOf(await runs(oneJob("      - run: echo '::add-mask::hush' && echo hush\n"))).log).toBe(
      "::add-mask::***\n***\n",
    );
  });

  it("a fork's pull request gets none", async () => {
    const { bench, put, notesOf } = current();
    bench.repo.setSecret("A", "alpha");
    put(
      `on: pull_request\njobs:\n  job:\n    runs-on: ubuntu-24.04\n    permissions: {id-token: write}\n    steps:\n      - run: echo "::notice::[\${{ secrets.A }}] [$ACTIONS_ID_TOKEN_REQUEST_URL]"\n`,
    );
    bench.repo.openPullRequest({ author: "stranger", fork: true, files: { "x.txt": "x\n" } });
    await bench.hook("workflow_run", "completed");
    const [run] = bench.repo.runs(FILE);
    expect(run === undefined ? [] : notesOf(jobOf(run))).toEqual(["notice: [] []"]);
  });
});

describe("identity tokens", () => {
  it("say who the job is, to one audience, signed by a key of the issuer's own set; the password dies with the job", async () => {
    const { bench, runs } = current();
    const { url } = bench.github;
    const run = await runs(
      oneJob(
        `      - run: |
          echo "$ACTIONS_ID_TOKEN_REQUEST_URL $ACTIONS_ID_TOKEN_REQUEST_TOKEN" | base64 -w 0
          echo
          curl -fsS -H "Authorization: bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=https://gate.test" | base64 -w 0
`,
        "    permissions: {id-token: write}\n",
      ),
    );
    const [asked = "", token = ""] = jobOf(run)
      .log.split("\n")
      .map((line) => Buffer.from(line, "base64").toString());
    const { value } = JSON.parse(token) as { value: string };
    const keys = createRemoteJWKSet(new URL(`${url}/.well-known/jwks`));
    const { payload } = await jwtVerify(value, keys, { issuer: url, audience: "https://gate.test" });
    expect(payload).toMatchObject({
      repository: "octo/lab",
      event_name: "workflow_dispatch",
      actor: "ada",
      run_id: String(run.id),
      run_attempt: "1",
      runner_environment: "github-hosted",
      job_workflow_ref: `octo/lab/${FILE}@refs/heads/main`,
      sub: `repo:octo@${String(payload["repository_owner_id"])}/lab@${String(payload["repository_id"])}:ref:refs/heads/main`,
    });
    const [address = "", password = ""] = asked.trim().split(" ");
    const late = await fetch(address, { headers: { authorization: `bearer ${password}` } });
    expect(late.status).toBe(401);
  });

  it("are not there for a job that does not ask for the permission", async () => {
    const { runs } = current();
    const run = await runs(oneJob(`      - run: echo "[$ACTIONS_ID_TOKEN_REQUEST_URL]"\n`));
    expect(jobOf(run).log).toBe("[]\n");
  });
});

describe("the paths of upload-artifact", () => {
  it.each([
    ["out/*.txt", "a.txt b.txt"],
    ["out/**/*.txt", "a.txt b.txt deep/c.txt"],
    ["out/[!a].txt", "b.txt"],
    ["out/d*", "deep/c.txt deep/d.bin"],
    ["out !out/**/*.bin", "a.txt b.txt deep/c.txt"],
    ["out/a.txt out/deep/d.bin", "a.txt deep/d.bin"],
    ["out/a.txt", "a.txt"],
    ["out/deep/* other/e?txt", "other/e.txt out/deep/c.txt out/deep/d.bin"],
    ["nothing/** out/*.rs", ""],
  ])("%s takes these, from the folder that the searches share", (lines, names) => {
    const { folder } = current();
    for (const file of [
      "out/a.txt",
      "out/b.txt",
      "out/.hidden.txt",
      "out/deep/c.txt",
      "out/deep/d.bin",
      "other/e.txt",
    ]) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      writeFileSync(join(folder, file), "");
    }
    const { files, root } = findFiles(lines.split(" "), (line) => join(folder, line));
    expect(
      files
        .map((file) => relative(root, file))
        .toSorted()
        .join(" "),
    ).toBe(names);
  });
});

describe("actions/cache in one step", () => {
  const text = (key: string, then = "echo fine"): string =>
    dispatchable(
      `  job:
    runs-on: ubuntu-24.04
    steps:
      - id: cache
        name: Keep the tree
        uses: ${pin("actions/cache")}
        with: {path: tree, key: ${key}, restore-keys: "k-"}
      - run: echo "hit=\${{ steps.cache.outputs.cache-hit }} $(cat tree/x 2>/dev/null || echo nothing)"; mkdir -p tree && echo ${key} > tree/x
      - run: ${then}
`,
      "cache-mode: write\n",
    );
  const line = (log: string): string | undefined => log.split("\n").find((one) => one.startsWith("hit="));

  it("restores first and saves last, if the job went well and there was no hit; a like key is used and is no hit", async () => {
    const { runs } = current();
    const failed = await runs(text("k-1", "exit 1"));
    expect(stepsOf(jobOf(failed))).toContainEqual(["Post Keep the tree", "skipped"]);
    const first = await runs(text("k-1"));
    expect([line(jobOf(first).log), conclusions(first)]).toEqual(["hit= nothing", { job: "success" }]);
    expect(jobOf(first).log).toContain("Cache saved with key k-1");
    const second = await runs(text("k-1"));
    expect(line(jobOf(second).log)).toBe("hit=true k-1");
    expect(jobOf(second).log).not.toContain("Cache saved");
    const third = await runs(text("k-2"));
    expect(line(jobOf(third).log)).toBe("hit=false k-1");
    expect(jobOf(third).log).toContain("Cache saved with key k-2");
  });
});
