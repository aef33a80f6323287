/** Every command, called wrongly or asked what it is: one sentence that fits this very command, and exit 2. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { commands, groups } from "../../cli/commands/index.ts";
import { gpuGate } from "../hosted/io.ts";
import { root } from "../house/source.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "calls-"));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const NAMES = commands.map(({ name }) => name);

describe("help", () => {
  it.each(commands.map(({ name, usage }) => [name, usage] as const))(
    "explains %s in three ways",
    async (name, usage) => {
      for (const args of [
        [name, "--help"],
        [name, "-h"],
        ["help", name],
      ])
        expect(await gpuGate(args)).toEqual({ code: 0, out: `${usage.trim()}\n`, err: "" });
    },
  );

  it("lists every command, also when it is asked how to ask", async () => {
    for (const args of [[], ["help"], ["--help"], ["help", "--help"]]) {
      const { code, out } = await gpuGate(args);
      expect([args, code, NAMES.filter((name) => !out.includes(`  ${name} `))]).toEqual([args, 0, []]);
    }
  });

  it("lists them by what they are for, each once, in words of one form", async () => {
    const { out } = await gpuGate(["help"]);
    const headings = [...out.matchAll(/^(\S.*):$/gm)].map(([, title]) => title);
    expect(headings).toEqual(groups.map(({ title }) => title));
    expect(new Set(NAMES).size).toBe(NAMES.length);
    expect(commands.filter(({ summary }) => !/^[A-Z].*[^.]$/.test(summary)).map(({ name }) => name)).toEqual([]);
  });

  it.each([
    [["help", "bogus"], "there is no command 'bogus'"],
    [["bogus", "--help"], "there is no command 'bogus'"],
    [["help", "lint", "lanes"], "Name one command."],
  ])("%j is a wrong call", async (args, why) => {
    const { code, out, err } = await gpuGate(args);
    expect([code, out, err]).toEqual([2, "", expect.stringContaining(why)]);
  });

  it("names below its first lines each option that they show", async () => {
    for (const { name, usage } of commands) {
      const [synopsis = "", ...rest] = usage.trim().split("\n\n");
      // In front of a pipe stands another program.
      const options = new Set(
        [...synopsis.replace(/^.* \| /, "").matchAll(/--[a-z][a-z-]*/g)].map(([option]) => option),
      );
      const below = rest.join("\n\n");
      const unexplained = [...options].filter((option) => !new RegExp(`${option}(?![a-z-])`).test(below));
      expect([name, unexplained]).toEqual([name, []]);
    }
  });

  it("--version is the package's", async () => {
    const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
    expect(await gpuGate(["--version"])).toEqual({ code: 0, out: `${version}\n`, err: "" });
  });
});

describe("arguments that cannot be understood", () => {
  it.each(NAMES)("%s answers an unknown option with one sentence", async (name) => {
    expect(await gpuGate([name, "--bogus"])).toEqual({
      code: 2,
      out: "",
      err: `gpu-gate ${name}: Unknown option '--bogus'. Run 'gpu-gate ${name} --help'.\n`,
    });
  });

  it.each(["yesterday", "2026-13-01", "2026-11-31", "2026-11-1", "01.11.2026"])("costs --from %s", async (day) => {
    const { code, err } = await gpuGate(["costs", "--from", day], { env: { GPU_GATE_URL: "https://gate.test" } });
    expect([code, err]).toEqual([2, expect.stringContaining(`--from is a day such as 2026-11-30, not '${day}'.`)]);
  });

  it.each([
    [["status", "--url"], "Option '--url' needs a value."],
    [["status", "--url", "--json"], "Option '--url' needs a value; one that begins with '-' is written '--url=VALUE'."],
    [["status", "--json=yes"], "Option '--json' takes no value."],
    [["classify", "--null=yes"], "Option '--null' takes no value."],
    [["status", "now. And then"], "'now. And then' is one word too many."],
    [["tail", "file"], "'file' is one word too many."],
  ])("%j", async (args, sentence) => {
    const { code, err } = await gpuGate(args);
    expect([code, err]).toEqual([2, `gpu-gate ${args[0]}: ${sentence} Run 'gpu-gate ${args[0]} --help'.\n`]);
  });
});

describe("what is missing is named, all of it", () => {
  it.each([
    [
      ["archive", "split"],
      ["FOLDER or FILE", "--out"],
    ],
    [["archive", "split", "x"], ["--out"]],
    [
      ["archive", "join"],
      ["--in", "--out"],
    ],
    [
      ["payload", "pack"],
      ["TREE", "--kind", "--out"],
    ],
    [
      ["partition", "filter"],
      ["--table", "--inventory", "--lane"],
    ],
    [
      ["partition", "report"],
      ["--table", "--inventory", "--ran"],
    ],
    [["retain"], ["--repository", "--pod or --request", "--minutes"]],
    [
      ["operator", "cancel"],
      ["--repository", "--request"],
    ],
    [
      ["operator", "approve"],
      ["--repository", "--request", "--usd"],
    ],
    [["sweep"], ["--url", "GPU_GATE_URL", "--deployment"]],
    [["status"], ["--url", "GPU_GATE_URL"]],
    [
      ["lanes", "--live"],
      ["--repository", "GITHUB_REPOSITORY"],
    ],
  ])("%j", async (args, words) => {
    await writeFile(join(folder, "gate.yml"), "version: 1\n");
    const { code, err } = await gpuGate(args[0] === "lanes" ? [...args, "gate.yml"] : args, { cwd: folder });
    expect([code, words.filter((word) => !err.includes(word))]).toEqual([2, []]);
  });
});

describe("a configuration that is not there", () => {
  it.each([
    [["config", "check"], "Name another: gpu-gate config check FILE. To begin one, write `version: 1`"],
    [["config", "check", "nowhere.yml"], "Name another: gpu-gate config check FILE."],
    [["lanes"], "Name another: gpu-gate lanes FILE."],
    [["explain", "a.rs"], "Give another with --config."],
    [["classify", "a.rs"], "Give another with --config."],
    [["classify", "--since", "90d", "--config", "new.yml"], "Give another with --against."],
    [["probe", "--lane", "gpu"], "Give another with --config."],
  ])("%j: advice that this very command takes", async (args, advice) => {
    await writeFile(join(folder, "new.yml"), "version: 1\n");
    const { code, err } = await gpuGate(args, { cwd: folder, env: { LANE_SWITCH: "true" } });
    expect(code).not.toBe(0);
    expect(err).toContain("the configuration cannot be read: no such file or directory");
    expect(err).toContain(advice);
    const { usage } = commands.find(({ name }) => name === args[0]) ?? expect.fail("no such command");
    expect(usage).toContain(/--[a-z]+|FILE/.exec(advice)?.[0]);
  });

  it("is told apart from a folder", async () => {
    const { code, err } = await gpuGate(["config", "check", folder]);
    expect([code, err]).toEqual([1, expect.stringContaining("cannot be read: it is a folder, not a file.")]);
  });
});

describe("a folder or file that is not there", () => {
  it.each([
    [["archive", "split", "/nodir", "--out", "parts"]],
    [["archive", "verify", "--in", "/nodir"]],
    [["archive", "join", "--in", "/nodir", "--out", "made"]],
    [["payload", "stage", "/nodir", "--kind", "common", "--out", "made"]],
    [["payload", "verify", "/nodir", "--kind", "common"]],
    [["lint", "/nodir"]],
    [["audit", "verify", "/nodir"]],
    [["evidence", "--junit", "/nodir"]],
  ])("%j: is named", async (args) => {
    const { code, err } = await gpuGate(args, { cwd: folder });
    expect([code, err]).toEqual([2, expect.stringMatching(/'\/nodir'.*no such file|no such file.*'\/nodir'/)]);
  });
});

describe("gpu-gate archive-key", () => {
  it("says of a folder that it does not exist, or is none, or is no repository", async () => {
    await writeFile(join(folder, "file"), "");
    const ask = async (...args: string[]) => {
      const { code, err } = await gpuGate(["archive-key", ...args], { cwd: folder });
      return [code, err.replace(/ Run 'gpu-gate.*\n$/, "")];
    };
    const prefix = "gpu-gate archive-key: The";
    expect(await ask("--checkout", "/nodir")).toEqual([
      2,
      `${prefix} checkout cannot be read: the folder does not exist ('/nodir', given with --checkout).`,
    ]);
    expect(await ask("--checkout", ".", "--trusted", "nodir")).toEqual([
      2,
      `${prefix} trusted checkout cannot be read: the folder does not exist ('nodir', given with --trusted).`,
    ]);
    expect(await ask("--checkout", "file")).toEqual([2, expect.stringContaining("must be a folder")]);
    expect(await ask("--checkout", folder)).toEqual([2, expect.stringContaining("this is not a git repository.")]);
  });
});

describe("an address", () => {
  const TOKEN = { GPU_GATE_OPERATOR_TOKEN: "operator-token-of-a-test" };
  const asking = [["status"], ["queue"], ["costs"], ["pause"], ["sweep"], ["explain", "#2"], ["doctor"]].map(
    (args) => [args] as const,
  );

  it.each(asking)("%j: one that is none is told from a missing one", async (args) => {
    const given = await gpuGate([...args, "--url", "notaurl"], { env: TOKEN });
    expect([given.code, given.err]).toEqual([2, expect.stringContaining("address (--url) is no https address")]);
    const set = await gpuGate(args, { env: { ...TOKEN, GPU_GATE_URL: "gate.test" } });
    expect([set.code, set.err]).toEqual([2, expect.stringContaining("address (GPU_GATE_URL) is no https address")]);
  });

  it("that a token goes to is https; the status page may be looked at without", async () => {
    const env = { ...TOKEN, GPU_GATE_URL: "http://gate.test" };
    expect((await gpuGate(["pause"], { env })).err).toContain("must begin with https://: a token is sent there");
    expect((await gpuGate(["status"], { env: { GPU_GATE_URL: "http://gate.test" } })).err).toContain(
      "http://gate.test/api/status answered 599",
    );
  });

  it.each([[["status"]], [["costs"]], [["pause"]], [["sweep"]], [["explain", "r7"]]])(
    "%j: says that nothing listens there, and what to look at",
    async (args) => {
      const server = createServer();
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = server.address();
      const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
      await new Promise((resolve) => server.close(resolve));
      // Of each address its own: the tests' watch sees to it that a credential goes to one server only.
      const env = { GPU_GATE_OPERATOR_TOKEN: `operator-token-for-${new URL(url).port}`, GPU_GATE_URL: url };
      const { code, out, err } = await gpuGate(args, { env, fetch: (input, init) => fetch(input, init) });
      expect(code).toBe(1);
      expect(out + err).toContain("nothing listens there (connection refused)");
      expect(out + err).toContain("Check --url or GPU_GATE_URL");
      expect(out + err).not.toMatch(/TypeError|fetch failed/);
    },
  );
});

describe("gpu-gate explain", () => {
  const env = { GPU_GATE_URL: "https://gate.test" };
  async function ask(args: readonly string[], given: Record<string, string> = env) {
    const asked: string[] = [];
    const fetch = async (input: string) => {
      asked.push(input);
      return Response.json({ repositories: [] });
    };
    return { ...(await gpuGate(["explain", ...args], { cwd: folder, env: given, fetch })), asked };
  }

  it.each([
    ["#2", "pr=2"],
    ["r12bkztd", "request=r12bkztd"],
  ])("asks the control plane of GPU_GATE_URL about %s", async (subject, query) => {
    expect((await ask([subject])).asked).toEqual([`https://gate.test/api/explain?${query}`]);
    const without = await ask([subject], {});
    expect([without.code, without.err]).toEqual([2, expect.stringContaining("give --url or set GPU_GATE_URL")]);
  });

  it("takes everything else for paths, whatever is set", async () => {
    await writeFile(join(folder, "gate.yml"), "version: 1\n");
    for (const args of [
      ["--config", "gate.yml", "#2"],
      ["--config", "gate.yml", "r12bkztd"],
      ["src/a.rs"],
      ["./r12bkztd"],
    ])
      expect([args, (await ask(args)).asked]).toEqual([args, []]);
    expect((await ask(["--config", "gate.yml", "./r12bkztd"])).out).toContain("r12bkztd: code");
  });

  it.each([
    [["#2", "#3"]],
    [["--url", "https://gate.test"]],
    [["--url", "https://gate.test", "--config", "x", "#2"]],
    [[]],
  ])("%j is a wrong call", async (args) => {
    expect(await ask(args)).toMatchObject({ code: 2, asked: [] });
  });
});
