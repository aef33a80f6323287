/** `gpu-gate probe` and `gpu-gate lanes` as a hosted job and a maintainer run them, against a GitHub that a test scripts. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Io } from "../../cli/command.ts";
import { main } from "../../cli/main.ts";

const TOKEN = "canary-token-7f3a";
const CONFIG = `version: 1
lanes:
  gpu: {}
  coverage_gpu:
    own:
      runs_on: [self-hosted, linux, gpu-full]
      switch: GPU_COVERAGE_ENABLED
      runbook: https://example.org/runbook
      probe: Probe GPU
    checks: [Coverage GPU]
required_checks: [{name: Coverage GPU}]
`;

let folder = "";

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "lanes-"));
  await writeFile(join(folder, "gate.yml"), CONFIG);
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

type Answer = { status: number; body: unknown } | Error;

async function run(args: string[], env: Record<string, string>, answers: Record<string, Answer> = {}) {
  let stdout = "";
  let stderr = "";
  const asked: { url: string; authorization: string | null }[] = [];
  const io: Io = {
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
    stdin: () => Promise.reject(new Error("no command here reads standard input")),
    env: { GITHUB_REPOSITORY: "o/r", GITHUB_OUTPUT: join(folder, "output"), GPU_GATE_TOKEN: TOKEN, ...env },
    cwd: folder,
    fetch: (url, init) => {
      asked.push({ url, authorization: new Headers(init?.headers).get("authorization") });
      const answer = answers[new URL(url).pathname] ?? { status: 404, body: {} };
      if (answer instanceof Error) return Promise.reject(answer);
      return Promise.resolve(new Response(JSON.stringify(answer.body), { status: answer.status }));
    },
    now: () => 0,
  };
  const code = await main(args, io);
  const output = await readFile(join(folder, "output"), "utf8").catch(() => "");
  return { code, stdout, stderr, asked, output };
}

const RUNNERS = "/repos/o/r/actions/runners";

function runners(status: string, ...labels: string[]): Answer {
  const runner = { id: 1, name: "box", status, labels: labels.map((name) => ({ name })) };
  return { status: 200, body: { total_count: 1, runners: [runner] } };
}

const LANE = ["probe", "--lane", "coverage_gpu", "--config", "gate.yml"];
const ON = { LANE_SWITCH: "true" };

describe("gpu-gate probe", () => {
  it("off: exit 0, outputs false, GitHub is not asked, no token is needed", async () => {
    for (const value of ["false", "True", ""]) {
      const result = await run(LANE, { LANE_SWITCH: value, GPU_GATE_TOKEN: "" });
      expect(result).toMatchObject({ code: 0, asked: [] });
      expect(result.output).toMatch(/enabled=false\nregistered=false\navailable=false\n$/u);
    }
  });

  it("off is a clean skip even when the configuration is broken", async () => {
    await writeFile(join(folder, "gate.yml"), "version: [");
    expect((await run(LANE, {})).code).toBe(0);
  });

  it.each([{}, ON])("a name that is no lane's is a wrong call with the switch %j", async (env) => {
    const result = await run(["probe", "--lane", "covrage_gpu", "--config", "gate.yml"], env);
    expect(result).toMatchObject({ code: 2, asked: [], output: "", stdout: "" });
    expect(result.stderr).toContain("no lane 'covrage_gpu' on a machine of your own; it has coverage_gpu.");
    const none = await run(["probe", "--config", "gate.yml"], env);
    expect(none).toMatchObject({ code: 2, asked: [], output: "", stdout: "" });
    expect(none.stderr).toContain("Say which lane");
  });

  it("off with a label set of its own needs no configuration", async () => {
    const result = await run(["probe", "--labels", "self-hosted gpu-full", "--config", "nowhere.yml"], {});
    expect(result).toMatchObject({ code: 0, asked: [] });
  });

  it("on and online: exit 0, available", async () => {
    const result = await run(LANE, ON, { [RUNNERS]: runners("online", "self-hosted", "Linux", "gpu-full") });
    expect(result.code).toBe(0);
    expect(result.output).toBe("enabled=true\nregistered=true\navailable=true\n");
    expect(result.asked).toEqual([
      { url: `https://api.github.com${RUNNERS}?per_page=100&page=1`, authorization: `Bearer ${TOKEN}` },
    ]);
  });

  it.each([
    ["offline", runners("offline", "self-hosted", "linux", "gpu-full"), "lane-offline", "true"],
    ["partial labels", runners("online", "self-hosted", "linux"), "lane-no-match", "false"],
    ["refused", { status: 403, body: {} }, "lane-probe-failed", "false"],
    ["unreachable", new TypeError("fetch failed"), "lane-probe-failed", "false"],
  ] as const)(
    "on and %s: exit 1 with the runbook, and the job behind it is skipped",
    async (_, answer, code, registered) => {
      const result = await run(LANE, ON, { [RUNNERS]: answer });
      expect(result.code).toBe(1);
      expect(result.output).toBe(`enabled=true\nregistered=${registered}\navailable=false\n`);
      expect(result.stderr).toMatch(/^::error title=Lane coverage_gpu is not available::[^\n]+\n$/u);
      expect(result.stderr).toContain(`(${code})`);
      expect(result.stderr).toContain("Runbook: https://example.org/runbook");
    },
  );

  it("on without a token fails loudly and says which variable to set", async () => {
    const result = await run(LANE, { ...ON, GPU_GATE_TOKEN: "" }, {});
    expect(result.code).toBe(1);
    expect(result.stderr).toContain("GPU_GATE_TOKEN");
  });

  it("a runner's name cannot start a workflow command of its own", async () => {
    const answer = runners("online", "self-hosted");
    const evil = JSON.parse(
      JSON.stringify(answer).replace("box", String.raw`x\n::set-output name=available::true`),
    ) as Answer;
    const result = await run(LANE, ON, { [RUNNERS]: evil });
    expect(result.stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("never prints the token", async () => {
    const result = await run([...LANE, "--json"], ON, { [RUNNERS]: { status: 403, body: { message: TOKEN } } });
    expect(result.stdout + result.stderr + result.output).not.toContain(TOKEN);
  });

  it("a lane that the configuration does not know is a wrong call", async () => {
    const result = await run(["probe", "--lane", "gpu", "--config", "gate.yml"], ON);
    expect(result).toMatchObject({ code: 2, asked: [] });
    expect(result.stderr).toContain("no lane 'gpu' on a machine of your own");
  });
});

describe("gpu-gate lanes", () => {
  const variable = (value: string): Answer => ({ status: 200, body: { name: "GPU_COVERAGE_ENABLED", value } });
  const SWITCH = "/repos/o/r/actions/variables/GPU_COVERAGE_ENABLED";

  it("lists own lanes as OPEN and NOT RUN without asking anybody", async () => {
    const result = await run(["lanes", "gate.yml"], {});
    expect(result).toMatchObject({ code: 0, asked: [] });
    expect(result.stdout).toMatch(/^coverage_gpu {2}OPEN {2}NOT RUN\n/u);
    expect(result.stdout).not.toMatch(/pass/iu);
  });

  it.each([
    ["the switch is off", variable("false"), runners("online"), 0, "OPEN  NOT RUN"],
    ["the switch is not set", { status: 404, body: {} }, runners("online"), 0, "OPEN  NOT RUN"],
    ["the machine is there", variable("true"), runners("online", "self-hosted", "linux", "gpu-full"), 0, "READY\n"],
    [
      "the machine is away",
      variable("true"),
      runners("offline", "self-hosted", "linux", "gpu-full"),
      1,
      "OPEN  NOT RUN",
    ],
    ["the switch cannot be read", { status: 403, body: {} }, runners("online"), 1, "OPEN  NOT RUN"],
  ] as const)("live, when %s", async (_, switchAnswer, runnerAnswer, code, state) => {
    const result = await run(["lanes", "gate.yml", "--live"], {}, { [SWITCH]: switchAnswer, [RUNNERS]: runnerAnswer });
    expect(result.code).toBe(code);
    expect(result.stdout).toContain(`coverage_gpu  ${state}`);
  });
});
