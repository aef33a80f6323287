/**
 * Archives of an earlier preparation, used again: the shipped workflow file and the bundled tool on the local GitHub's own
 * hosted machines, and the look-up against its routes, with runs that are not what they seem.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { WorkflowRun } from "../../local/github/model.ts";
import { unzip } from "../../local/machine/unzip.ts";
import { bundleCli } from "../../scripts/bundle-cli.ts";
import { gpuGate } from "../hosted/io.ts";
import { openBench, type Bench } from "../local-github/harness.ts";
import { jobOf, ofRun } from "../local-github/workflows.ts";
import { shippedText } from "./shipped.ts";

const PREPARE = ".github/workflows/gpu-gate-prepare.yml";
const KEY = "v1-ubuntu24.04-abc";
const MARKER = `gpu-gate-archives-of-${KEY}`;

const BUILD = 'echo "compiled for $(git rev-parse HEAD)" > "$1/program"\n';
/** The host tests see what the paid job will see: the program, and no other commit's mark. */
const HOST_TESTS = 'cat "$1/program"\ntest ! -e "$1/TESTED_SHA"\n';

let bench: Bench;
let folder: string;
let first: WorkflowRun;
let tested: string;
/** Who dispatched it, before any test says otherwise. */
let actorId: string;

async function prepare(request: string, sha: string): Promise<WorkflowRun> {
  const inputs = { request, tested_sha: sha, archive_key: KEY };
  const id = bench.repo.dispatchWorkflow(PREPARE, "ada", inputs);
  await bench.hook("workflow_run", "completed", ofRun(id));
  const run = bench.repo.runs().find((one) => one.id === id);
  if (run === undefined) throw new Error("no such run");
  expect(jobOf(run, "Archives and host tests").conclusion, run.attempts[0]?.jobs.map((job) => job.log).join("\n")).toBe(
    "success",
  );
  return run;
}

const step = (run: WorkflowRun, name: string, job = "Archives and host tests"): unknown =>
  jobOf(run, job).steps.find((one) => one.name === name)?.conclusion;

const manifestOf = (run: WorkflowRun): string =>
  String(Object.values(unzip(run.artifacts.find((one) => one.name === MARKER)?.zip ?? Buffer.alloc(0)))[0]);

const look = async (env: Readonly<Record<string, string>> = {}) =>
  gpuGate(["archive", "find", "--key", KEY], {
    env: {
      GITHUB_API_URL: bench.github.url,
      GITHUB_REPOSITORY: "octo/lab",
      GITHUB_RUN_ID: "1",
      GITHUB_ACTOR_ID: actorId,
      GITHUB_WORKFLOW_REF: `octo/lab/${PREPARE}@refs/heads/main`,
      GPU_GATE_TOKEN: await bench.token(),
      ...env,
    },
    fetch: (input, init) => fetch(input, init),
  });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpu-gate-earlier-"));
  const tool = join(folder, "gpu-gate.mjs");
  await bundleCli(tool);
  bench = await openBench({ hosted: { folder: join(folder, "machines") } });
  bench.repo.commit({
    files: {
      [PREPARE]: shippedText("gpu-gate-prepare.yml"),
      ".github/gpu-gate/gpu-gate.mjs": readFileSync(tool, "utf8"),
      ".github/gpu-gate/build.sh": BUILD,
      ".github/gpu-gate/test-host.sh": HOST_TESTS,
    },
  });
  tested = bench.repo.sha();
  first = await prepare("r-1", tested);
  actorId = String(first.actor.id);
});

afterAll(async () => {
  await bench.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Later runs of a test must not be found by the next. */
const putAside = (run: WorkflowRun): void => {
  for (const artifact of run.artifacts) artifact.deleted = true;
};

describe("a preparation whose content was built before", () => {
  it("builds, the first time", () => {
    expect([step(first, "Build the archives"), step(first, "Use the archives of an earlier run")]).toEqual([
      "success",
      "skipped",
    ]);
    expect(first.artifacts.map((artifact) => artifact.name)).toContain(MARKER);
  });

  it("takes what the earlier run built, tests it on the host, and hands it on as its own commit's", async () => {
    bench.repo.commit({ files: { "notes.md": "not in the key\n" } });
    const second = await prepare("r-2", bench.repo.sha());
    expect([step(second, "Build the archives"), step(second, "Use the archives of an earlier run")]).toEqual([
      "skipped",
      "success",
    ]);
    expect(step(second, "Run the host tests from the archives")).toBe("success");
    expect(jobOf(second, "Archives and host tests").log).toContain(`compiled for ${tested}`);
    // The paid job can say so: the manifest, an artifact like any other, lists the mark.
    expect([first, second].map((run) => manifestOf(run).includes("archives/REUSED"))).toEqual([false, true]);
    const names = second.artifacts.map((artifact) => artifact.name).filter((name) => name.startsWith("gpu-gate-arch"));
    expect(names).toHaveLength(7);
    putAside(second);
  });

  it("builds anew when the earlier archives are not what their digest says", async () => {
    const part = first.artifacts.find((artifact) => artifact.name === "gpu-gate-archives-part00");
    const genuine = part?.digest ?? "";
    Object.assign(part ?? {}, { digest: `sha256:${"0".repeat(64)}` });
    const run = await prepare("r-3", tested);
    Object.assign(part ?? {}, { digest: genuine });
    expect([step(run, "Build the archives"), jobOf(run, "Archives of an earlier run").conclusion]).toEqual([
      "success",
      "success",
    ]);
    putAside(run);
  });
});

describe("a look-up that fails as a whole", () => {
  const LAST_WORD = "Say what may be used";
  /** The shipped file, with a last step of the look-up that takes its machine's job down. */
  const broken = (): string => {
    const shipped = shippedText("gpu-gate-prepare.yml");
    const text = shipped.replace(
      'if [ "$HANDED_ON" = "success" ]; then usable=true',
      "exit 1; if false; then usable=true",
    );
    expect(text).not.toBe(shipped);
    return text;
  };
  const dispatch = async (text: string, request: string, files: Readonly<Record<string, string>> = {}) => {
    bench.repo.commit({ files: { [PREPARE]: text, ...files } });
    const inputs = { request, tested_sha: bench.repo.sha(), archive_key: KEY };
    const id = bench.repo.dispatchWorkflow(PREPARE, "ada", inputs);
    await bench.hook("workflow_run", "completed", ofRun(id));
    const run = bench.repo.runs().find((one) => one.id === id);
    if (run === undefined) throw new Error("no such run");
    return run;
  };
  const ends = (run: WorkflowRun): unknown[] => [
    jobOf(run, "Archives of an earlier run").conclusion,
    jobOf(run, "Archives and host tests").conclusion,
    run.attempts[0]?.conclusion,
  ];

  it("is a build, and the preparation goes well", async () => {
    const run = await dispatch(broken(), "r-4");
    expect(step(run, LAST_WORD, "Archives of an earlier run")).toBe("failure");
    expect(step(run, "Build the archives")).toBe("success");
    expect(ends(run)).toEqual(["failure", "success", "success"]);
    putAside(run);
  });

  it("forgives nothing else: host tests that fail are a preparation that failed", async () => {
    const run = await dispatch(broken(), "r-5", { ".github/gpu-gate/test-host.sh": "exit 1\n" });
    expect(ends(run)).toEqual(["failure", "failure", "failure"]);
    putAside(run);
    bench.repo.commit({
      files: { [PREPARE]: shippedText("gpu-gate-prepare.yml"), ".github/gpu-gate/test-host.sh": HOST_TESTS },
    });
  });
});

describe("gpu-gate archive find", () => {
  const undo: (() => void)[] = [];
  afterEach(() => {
    for (const one of undo.splice(0)) one();
  });
  const forge = (target: object, change: object): void => {
    const before = { ...target };
    undo.push(() => void Object.assign(target, before));
    Object.assign(target, change);
  };

  it("finds the run and its six artifacts", async () => {
    const { code, out, err } = await look();
    expect(code).toBe(0);
    expect(out).toContain(`Run ${first.id} has built ${KEY}`);
    expect(err).toBe("");
    expect(out.match(/\d+(?:,\d+){5}\./)).not.toBeNull();
  });

  const marker = (): object => first.artifacts.find((artifact) => artifact.name === MARKER) ?? {};
  it.each([
    [
      "of another workflow file",
      () => forge(first, { workflow: { ...first.workflow, path: ".github/workflows/x.yml" } }),
    ],
    ["that somebody else dispatched", () => forge(first, { actor: { ...first.actor, id: first.actor.id + 1 } })],
    ["at another branch", () => forge(first, { headBranch: "feature" })],
    ["of a fork", () => forge(first, { headRepository: { ...first.repository, id: 1, name: "fork" } })],
    ["by a pull request", () => forge(first, { event: "pull_request" })],
    ["by pull_request_target", () => forge(first, { event: "pull_request_target" })],
    ["whose artifacts have expired", () => first.artifacts.forEach((one) => forge(one, { expiresAt: 1 }))],
    ["whose mark has expired", () => forge(marker(), { expiresAt: 1 })],
    ["that lost a part", () => forge(first.artifacts[2] ?? {}, { deleted: true })],
    ["of another key", () => forge(marker(), { name: `${MARKER}d` })],
  ])("does not take the archives of a run %s", async (_what, forged) => {
    forged();
    const { code, out, err } = await look();
    expect([code, out.startsWith("Nothing to use again: "), err]).toEqual([0, true, ""]);
  });

  it.each([
    ["the list", /\/actions\/artifacts$/],
    ["the run", /\/actions\/runs\/\d+$/],
    ["the run's own artifacts", /\/actions\/runs\/\d+\/artifacts$/],
  ])("gives up when %s cannot be read", async (_what, path) => {
    bench.github.faults.next({ method: "GET", path }, { status: 502 });
    const { code, out, err } = await look();
    expect([code, out.includes("could not be read")]).toEqual([0, true]);
    expect(err).toMatch(/^gpu-gate archive find: GET \/repos\/octo\/lab\/actions\/[\w/]+ was answered 502\.\n$/);
  });

  it("never finds the run that asks", async () => {
    expect((await look({ GITHUB_RUN_ID: String(first.id) })).out).toContain(`no trusted run has built ${KEY}`);
  });

  it("says so when the token may not read, and refuses outside of a job", async () => {
    const blind = await bench.token({ permissions: { contents: "read" } });
    const seen = await look({ GPU_GATE_TOKEN: blind });
    expect(seen.out).toContain("list of artifacts could not be read");
    expect([seen.code, seen.err]).toEqual([
      0,
      expect.stringMatching(/answered 40[34]: the job needs 'permissions: actions: read'/),
    ]);
    const tokenless = await look({ GPU_GATE_TOKEN: "" });
    expect([tokenless.code, tokenless.err]).toEqual([
      0,
      "gpu-gate archive find: no token: set GPU_GATE_TOKEN to one that may read.\n",
    ]);
    expect(await look({ GITHUB_WORKFLOW_REF: "" })).toMatchObject({ code: 2 });
  });
});
