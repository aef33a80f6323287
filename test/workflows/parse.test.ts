import { describe, expect, it } from "vitest";
import { parseWorkflow } from "../../local/workflow/parse.ts";

const BASE = `on:
  workflow_dispatch:
    inputs:
      who:
        type: string
        default: me
permissions: {}
jobs:
  first:
    runs-on: ubuntu-24.04
    steps:
      - run: echo
  second:
    needs: first
    runs-on: [self-hosted, "\${{ inputs.who }}"]
    steps:
      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd
        with:
          ref: x
`;

function problems(text: string): readonly string[] {
  const parsed = parseWorkflow(text, "w.yml");
  return parsed.ok
    ? []
    : parsed.error.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`);
}

it("understands the file that the other cases break", () => {
  expect(problems(BASE)).toEqual([]);
});

describe("what is not understood names its place", () => {
  it.each([
    [
      "an unknown key at the top",
      BASE.replace("permissions: {}", "defaults: {}"),
      "w.yml:7:1: the key 'defaults' is not supported here",
    ],
    [
      "an unknown key of a job",
      BASE.replace("    needs: first", "    container: x"),
      "w.yml:14:5: the key 'container' is not supported here",
    ],
    [
      "an unknown key of a step",
      BASE.replace("- run: echo", "- run: echo\n        retries: 3"),
      "w.yml:13:9: the key 'retries' is not supported here",
    ],
    [
      "an unknown key of an input",
      BASE.replace("default: me", "deprecated: me"),
      "w.yml:6:9: the key 'deprecated' is not supported here",
    ],
    [
      "an unknown trigger",
      BASE.replace("on:\n", "on:\n  pull_request_target:\n"),
      "w.yml:2:3: the key 'pull_request_target' is not supported here",
    ],
    [
      "a path filter",
      BASE.replace("on:\n", "on:\n  push:\n    paths: [x]\n"),
      "w.yml:3:5: the key 'paths' is not supported here",
    ],
    [
      "an unknown permission",
      BASE.replace("permissions: {}", "permissions: {everything: read}"),
      "w.yml:7:15: the key 'everything' is not supported here",
    ],
    [
      "an unlisted action",
      BASE.replace("actions/checkout@", "actions/setup-node@"),
      "'actions/setup-node@de0fac2e4500dabe0009e67214ff5f5447ce83dd' is not one of the actions",
    ],
    [
      "an action that is not pinned",
      BASE.replace(/checkout@\w+/, "checkout@v6"),
      "w.yml:17:15: 'actions/checkout@v6' is not one of the actions",
    ],
    [
      "an unknown input of an action",
      BASE.replace("ref: x", "lfs: true"),
      "w.yml:19:11: the input 'lfs' of actions/checkout is not supported",
    ],
    [
      "a job that needs nothing that exists",
      BASE.replace("needs: first", "needs: third"),
      "w.yml:14:12: 'second' needs 'third', which is no job",
    ],
    ["a circle", BASE.replace("  first:\n", "  first:\n    needs: second\n"), "'first' is in a circle"],
    ["a broken expression in text", BASE.replace("echo", "echo ${{ nope.x }}"), "w.yml:12:14: in '"],
    [
      "a broken condition",
      BASE.replace("needs: first", "needs: first\n    if: success( &&"),
      "w.yml:15:9: in 'success( &&'",
    ],
    ["hashFiles", BASE.replace("ref: x", "ref: ${{ hashFiles('x') }}"), "the function 'hashFiles' is not supported"],
    [
      "a step that does two things",
      BASE.replace("- run: echo", "- run: echo\n        uses: ./x"),
      "a step has either 'run' or 'uses'",
    ],
    ["a step that does nothing", BASE.replace("- run: echo", "- name: x"), "a step has either 'run' or 'uses'"],
    ["another shell", BASE.replace("- run: echo", "- run: echo\n        shell: pwsh"), "w.yml:13:16: "],
    [
      "matrix include",
      BASE.replace("  first:\n", "  first:\n    strategy: {matrix: {include: [a]}}\n"),
      "'include' of a matrix is not supported",
    ],
    [
      "queue: max with cancel",
      `concurrency: {group: g, queue: max, cancel-in-progress: true}\n${BASE}`,
      "cannot be combined",
    ],
    [
      "a default that does not fit",
      BASE.replace("type: string", "type: boolean"),
      "the input 'who' must be true or false, not 'me'",
    ],
    ["a key twice", `${BASE}permissions: {}\n`, "not readable as YAML"],
    ["no jobs", "on: push\n", "w.yml:1:1: 'jobs' is not understood"],
    ["no trigger", BASE.replace(/^on:[\s\S]*permissions/, "permissions"), "'on' is not understood"],
    [
      "a trigger in a list",
      BASE.replace(/^on:[\s\S]*?permissions/, "on: [push, watch]\npermissions"),
      "w.yml:1:12: the trigger 'watch' is not supported",
    ],
  ])("%s", (_what, text, expected) => {
    const found = problems(text);
    expect(found.join("\n")).toContain(expected);
  });

  it("more inputs than GitHub takes", () => {
    const many = Array.from({ length: 26 }, (_, n) => `      i${n}: {}\n`).join("");
    expect(problems(BASE.replace(/ {6}who:[\s\S]*?default: me\n/, many))[0]).toContain(
      "26 inputs are more than the 25",
    );
  });

  it("names everything at once", () => {
    const text = BASE.replace("checkout@", "setup-go@")
      .replace("echo", "${{ a }}")
      .replace("needs: first", "needs: nobody");
    expect(problems(text)).toHaveLength(3);
  });
});
