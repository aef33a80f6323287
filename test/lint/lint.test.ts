import { describe, expect, it } from "vitest";
import { lintWorkflows, RULES } from "../../shared/lint/lint.ts";
import { DEFAULT_LINT_CONFIG } from "../../shared/lint/rule.ts";
import { readExamples } from "./examples.ts";

const bad = readExamples("bad");
const good = readExamples("good");

describe("bad examples", () => {
  it.each(bad.map((example) => [example.name, example] as const))(
    "%s fires exactly where it is marked",
    (_name, example) => {
      const findings = lintWorkflows(example.sources, example.config, example.tree);
      expect(findings.map(({ file, line, rule }) => `${file}:${line} ${rule}`).toSorted()).toEqual(example.expected);
      expect(example.expected.some((mark) => mark.endsWith(` ${example.rule}`))).toBe(true);
    },
  );
});

describe("near misses", () => {
  it.each(good.map((example) => [example.name, example] as const))("%s is clean", (_name, example) => {
    expect(lintWorkflows(example.sources, example.config, example.tree)).toEqual([]);
  });
});

describe("the set of rules", () => {
  it.each(RULES.map((rule) => rule.id))("%s has a bad example and a near miss", (id) => {
    expect(bad.some((example) => example.rule === id)).toBe(true);
    expect(good.some((example) => example.rule === id)).toBe(true);
  });

  it("has no two rules of one name, and every rule explains itself", () => {
    expect(new Set(RULES.map((rule) => rule.id)).size).toBe(RULES.length);
    for (const rule of RULES) {
      expect(rule.id).toMatch(/^[a-z]+(-[a-z]+)*$/);
      expect(rule.explanation.length).toBeGreaterThan(60);
      expect(rule.example.length).toBeGreaterThan(40);
      expect(rule.fix.length).toBeGreaterThan(20);
    }
  });
});

const job = (name: string, runsOn: string): string => `
on: pull_request
permissions: {}
jobs:
  probe:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps: [{ run: gpu-gate probe }]
    name: probe of ${name}
  work:
    name: ${name}
    needs: probe
    if: needs.probe.outputs.available == 'true'
    runs-on: ${runsOn}
    timeout-minutes: 5
    steps: [{ run: ./work, timeout-minutes: 4 }]
`;

describe("files are judged together", () => {
  it("finds the second owner of a lane in another file", () => {
    const findings = lintWorkflows([
      { path: "b.yml", text: job("parity", "[self-hosted, arc]") },
      { path: "a.yml", text: job("coverage", "[arc, self-hosted]") },
    ]);
    expect(findings.map(({ file, rule }) => `${file} ${rule}`)).toEqual(["a.yml lane-two-owners"]);
    expect(findings[0]?.message).toContain("b.yml");
  });

  it("finds the second publisher of a check in another file", () => {
    const findings = lintWorkflows([
      { path: "a.yml", text: job("tests", "[self-hosted, one]") },
      { path: "b.yml", text: job("tests", "[self-hosted, two]") },
    ]);
    // Both the probe's and the job's name are published twice.
    expect(findings.map(({ file, rule }) => `${file} ${rule}`)).toEqual([
      "b.yml check-two-owners",
      "b.yml check-two-owners",
    ]);
  });

  it("finds a job that carries the aggregator's name", () => {
    const config = { ...DEFAULT_LINT_CONFIG, aggregateCheck: "Required checks" };
    const findings = lintWorkflows([{ path: "a.yml", text: job("Required checks", "[self-hosted, one]") }], config);
    expect(findings.map(({ rule }) => rule)).toEqual(["check-two-owners"]);
  });

  it("lets a workflow that runs on GitHub's machines only inherit secrets", () => {
    const caller =
      "on: push\npermissions: {}\njobs:\n  call:\n    uses: ./.github/workflows/callee.yml\n    secrets: inherit\n";
    const callee = (runsOn: string): string =>
      `on: workflow_call\npermissions: {}\njobs:\n  a:\n    runs-on: ${runsOn}\n    timeout-minutes: 5\n    steps: [{ run: echo, timeout-minutes: 1 }]\n`;
    const judge = (runsOn: string): readonly string[] =>
      lintWorkflows([
        { path: ".github/workflows/caller.yml", text: caller },
        { path: ".github/workflows/callee.yml", text: callee(runsOn) },
      ])
        .map((finding) => finding.rule)
        .filter((rule) => rule === "self-hosted-secret");
    expect(judge("ubuntu-24.04")).toEqual([]);
    expect(judge("[self-hosted, gpu]")).toEqual(["self-hosted-secret"]);
  });
});

describe("places", () => {
  it("names line and column inside a block of text", () => {
    const text =
      "on: issues\npermissions: {}\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    timeout-minutes: 5\n    steps:\n      - run: |\n          echo\n          echo ${{ github.event.issue.title }}\n";
    const [finding] = lintWorkflows([{ path: "x.yml", text }]);
    expect([finding?.line, finding?.column]).toEqual([10, 16]);
  });

  it("reports a file that is no YAML once, at the place, and goes on with the others", () => {
    const findings = lintWorkflows([
      { path: "a.yml", text: "on: push\njobs: [\n" },
      { path: "b.yml", text: "on: pull_request_target\npermissions: {}\njobs: {}\n" },
    ]);
    expect(findings.map(({ file, rule }) => `${file} ${rule}`)).toEqual([
      "a.yml unreadable-workflow",
      "b.yml pull-request-target",
    ]);
  });

  it.each([
    ["nests", 60, 1],
    ["doubles", 30, 2],
  ])("refuses a document that %s when its aliases are followed", (_what, levels, width) => {
    const level = (n: number): string =>
      `a${n}: &a${n} [${Array(width)
        .fill(n === 0 ? "x" : `*a${n - 1}`)
        .join(", ")}]\n`;
    const text = `on: push\njobs: {}\n${Array.from({ length: levels }, (_, n) => level(n)).join("")}`;
    expect(lintWorkflows([{ path: "a.yml", text }]).map((finding) => finding.rule)).toEqual(["unreadable-workflow"]);
  });
});

describe("a message", () => {
  const signs = ["\\r", "\\n", "\\u2028", "\\x1b[2J", "\\u202e", "\\x85"];
  const hostile = (uses: string, name = "x") => `on: push
permissions: {}
jobs:
  a:
    name: "${name}"
    runs-on: "self-hosted${uses}"
    steps:
      - uses: "actions/github-script@${uses}0123"
      - uses: actions/checkout@v4
        with: { ref: "\${{ github.head_ref }}${uses}" }
`;

  it.each(signs)("is on one line and obeyed by no terminal, whatever the workflow holds: %s", (sign) => {
    const lanes = [{ name: "a", runsOn: ["self-hosted"], checks: ["x"], switch: null, probe: null }];
    const config = {
      ...DEFAULT_LINT_CONFIG,
      gateCheck: `x${JSON.parse(`"${sign.replace("\\x", "\\u00")}"`) as string}y`,
      lanes,
    };
    const findings = lintWorkflows(
      [
        { path: "a.yml", text: hostile(sign, `x${sign}y`) },
        { path: "b.yml", text: `on: push\njobs: {}\n"a${sign}": 1\n"a${sign}": 2\n` },
      ],
      config,
    );
    expect(findings.find(({ rule }) => rule === "unpinned-action")?.message).toContain("actions/github-script@ ");
    expect(findings.filter(({ message }) => /[\p{Cc}\p{Zl}\p{Zp}\u202e]/u.test(message))).toEqual([]);
  });

  it("is shortened to a thousand characters", () => {
    const findings = lintWorkflows([{ path: "a.yml", text: hostile("v".repeat(5_000)) }]);
    expect(Math.max(...findings.map(({ message }) => message.length))).toBe(1_000);
  });
});
