/** What the tools that are started by hand say when they are started wrongly or asked for help, as processes. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { expect, it } from "vitest";
import { root } from "../house/source.ts";

const TOOLS = [
  ["sim/main.ts", "npm run sim"],
  ["sim/mutants.ts", "npm run sim:mutants"],
  ["fuzz/main.ts", "npm run fuzz"],
  ["test/long/crash-matrix.ts", "npm run crash-matrix"],
  ["test/oracle/main.ts", "npm run oracle"],
  ["bench/main.ts", "npm run bench"],
  ["bench/load/main.ts", "npm run load"],
  ["scripts/bundle-cli.ts", "npm run bundle"],
] as const;

const start = (tool: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, tool), ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
};

it.each(TOOLS)("%s answers an unknown option with one sentence and 2", (tool, name) => {
  expect(start(tool, "--nonsense")).toEqual({
    status: 2,
    stdout: "",
    stderr: `${name}: Unknown option '--nonsense'; --help lists the options.\n`,
  });
});

it.each(TOOLS)("%s says what it knows when asked for help, and does nothing else", (tool, name) => {
  const answer = start(tool, "--help");
  expect(answer).toMatchObject({ status: 0, stderr: "" });
  expect(answer.stdout).toMatch(new RegExp(`^${name}(?: --|\n)`));
});

it.each([
  ["sim/mutants.ts", ["--seeds", "many"], "--seeds takes a whole number of at least 1, not 'many'."],
  ["sim/mutants.ts", ["--seeds", "-1"], "Option '--seeds' needs a value; one that begins with '-' is written"],
  ["test/oracle/main.ts", [], "give the one folder that holds the corpora"],
  ["test/oracle/main.ts", ["no-such-folder"], "'no-such-folder' is not a folder"],
  ["bench/main.ts", ["toString"], "there is no benchmark 'toString'. Known: webhooks, "],
  ["scripts/bundle-cli.ts", ["out.mjs"], "'out.mjs' is one word too many"],
  ["sim/main.ts", ["--minutes", ""], "--minutes takes a number of at least 0, not ''."],
  ["sim/mutants.ts", ["no-such-mutant"], "there is no mutant called no-such-mutant;"],
  ["test/long/crash-matrix.ts", ["--points", "mint,no-such"], "there is no point 'no-such'."],
])("%s %j is refused with a sentence", (tool, args, sentence) => {
  const answer = start(tool, ...args);
  expect(answer).toMatchObject({ status: 2, stdout: "" });
  expect(answer.stderr).toContain(sentence);
});
