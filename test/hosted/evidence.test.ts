import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import {
  evidenceFromJUnit,
  evidenceFromNextest,
  evidenceNotice,
  EVIDENCE_SHELL,
  makeEvidence,
  parseEvidence,
  readEvidence,
} from "../../shared/hosted/evidence.ts";
import { observeSteps, type ObservedJob } from "../../shared/hosted/observations.ts";
import { fill, temporaryFolder } from "./folder.ts";
import { gpuGate } from "./io.ts";

const LOG = [
  "    Starting 12 tests across 2 binaries (4 tests skipped)",
  "        PASS [   0.004s] tensor gemm::f32",
  "------------",
  "     Summary [   3.214s] 12 tests run: 12 passed (1 slow), 4 skipped",
  "",
].join("\n");

/** What the reader must make of each log; null = no evidence. The shell on the pod has to agree with every row. */
const LOGS: readonly (readonly [string, string, { tests: number; durationMs: number } | null])[] = [
  ["one run", LOG, { tests: 12, durationMs: 3214 }],
  ["two runs are added", `${LOG}${LOG}`, { tests: 24, durationMs: 6428 }],
  ["one test", " Summary [   0.008s] 1 test run: 1 passed, 0 skipped", { tests: 1, durationMs: 8 }],
  ["long runs", "     Summary [4021.090s] 9 tests run: 9 passed, 0 skipped", { tests: 9, durationMs: 4_021_090 }],
  [
    "colours",
    "\u001B[32;1m     Summary\u001B[0m [   1.500s] \u001B[1m3\u001B[0m tests run: \u001B[1m3\u001B[0m \u001B[32;1mpassed\u001B[0m, 0 skipped",
    { tests: 3, durationMs: 1500 },
  ],
  [
    "windows line ends",
    "     Summary [   1.500s] 3 tests run: 3 passed, 0 skipped\r\n",
    { tests: 3, durationMs: 1500 },
  ],
  ["a failed test", " Summary [   1.000s] 5 tests run: 4 passed, 1 failed, 0 skipped", null],
  ["a run cut short", " Summary [   1.000s] 5/12 tests run: 5 passed, 0 skipped", null],
  ["a good run after a bad one", ` Summary [   1.000s] 5 tests run: 4 passed, 1 failed\n${LOG}`, null],
  ["no test at all", " Summary [   0.000s] 0 tests run: 0 passed, 16 skipped", null],
  ["no summary", "        PASS [   0.004s] tensor gemm::f32\n", null],
  ["an empty log", "", null],
  ["a summary quoted by a test", "stdout: Summary [   1.000s] 5 tests run: 5 passed", null],
];

describe("from nextest's log", () => {
  test.each(LOGS)("%s", (_name, log, expected) => {
    const evidence = evidenceFromNextest(log);
    expect(evidence.ok ? evidence.value : null).toEqual(expected);
  });

  test.each(LOGS)("the shell for machines without Node says the same: %s", (_name, log, expected) => {
    const folder = fill(temporaryFolder(), { log });
    const shell = spawnSync("/bin/bash", ["-euo", "pipefail", "-c", EVIDENCE_SHELL], {
      env: { ...process.env, LOG: `${folder}/log`, PATH: "/nonexistent" },
      encoding: "utf8",
    });
    const notices = shell.stdout.split("\n").filter((line) => line.startsWith("::notice"));
    expect({ status: shell.status, notices }).toEqual(
      expected === null ? { status: 1, notices: [] } : { status: 0, notices: [evidenceNotice(expected)] },
    );
  });
});

describe("from JUnit", () => {
  test.each([
    [
      "the outermost total counts",
      '<testsuites time="2.5"><testsuite time="1"><testcase name="a" time="9"/></testsuite></testsuites>',
      { tests: 1, durationMs: 2500 },
    ],
    [
      "suites are added without one",
      '<testsuites><testsuite time="1.25"><testcase name="a"/></testsuite><testsuite time="1"><testcase name="b"/></testsuite></testsuites>',
      { tests: 2, durationMs: 2250 },
    ],
    [
      "cases are added without those",
      '<testsuite><testcase name="a" time="0.1"/><testcase name="b" time=".2"/></testsuite>',
      { tests: 2, durationMs: 300 },
    ],
    [
      "skipped cases do not count",
      '<testsuite time="1"><testcase name="a"/><testcase name="b"><skipped/></testcase></testsuite>',
      { tests: 1, durationMs: 1000 },
    ],
    ["only skipped", '<testsuite time="1"><testcase name="b"><skipped/></testcase></testsuite>', null],
    [
      "a failure",
      '<testsuite time="1"><testcase name="a"/><testcase name="b"><failure>no</failure></testcase></testsuite>',
      null,
    ],
    ["an error after a skip", '<testsuite time="1"><testcase name="b"><skipped/><error/></testcase></testsuite>', null],
    ["no times", '<testsuite><testcase name="a"/></testsuite>', null],
    ["infinite time", '<testsuite time="inf"><testcase name="a"/></testsuite>', null],
    ["not XML", "12 tests run", null],
  ])("%s", (_name, xml, expected) => {
    const evidence = evidenceFromJUnit(xml);
    expect(evidence.ok ? evidence.value : null).toEqual(expected);
  });
});

describe("the strict reader", () => {
  test("reads what the writer wrote", () => {
    const notice = evidenceNotice({ tests: 12, durationMs: 0 });
    const message = notice.slice(notice.indexOf("::", 2) + 2);
    expect(parseEvidence(message)).toEqual({ ok: true, value: { tests: 12, durationMs: 0 } });
  });

  test.each([
    '{"tests":0,"durationMs":5}',
    '{"tests":1.5,"durationMs":5}',
    '{"tests":-1,"durationMs":5}',
    '{"tests":1e3,"durationMs":5}',
    '{"tests":"12","durationMs":5}',
    '{"tests":012,"durationMs":5}',
    '{"tests":12}',
    '{"tests":12,"durationMs":null}',
    '{"tests":12,"durationMs":5,"passed":true}',
    '{"durationMs":5,"tests":12}',
    '{"tests":12,"durationMs":86400001}',
    '{"tests":12,"durationMs":5}\n',
    "",
  ])("refuses %s", (message) => {
    expect(parseEvidence(message).ok).toBe(false);
  });

  const ours = { title: "gpu-gate-evidence", message: '{"tests":3,"durationMs":5}', annotation_level: "notice" };

  test("finds the one annotation among others", () => {
    const others = [{ title: null, message: "slow", annotation_level: "warning" }];
    expect(readEvidence([...others, ours])).toEqual({ ok: true, value: { tests: 3, durationMs: 5 } });
  });

  test.each([
    ["none", [], "absent"],
    ["two, even when they agree", [ours, ours], "ambiguous"],
    ["one of another level", [{ ...ours, annotation_level: "warning" }], "malformed"],
    ["one without a message", [{ ...ours, message: null }], "malformed"],
    ["one with a longer title", [{ ...ours, title: "gpu-gate-evidence " }], "absent"],
  ])("%s is no evidence", (_name, annotations, reason) => {
    expect(readEvidence(annotations)).toMatchObject({ ok: false, error: { reason } });
  });

  test.each([
    [0, 5, "no-tests"],
    [Number.POSITIVE_INFINITY, 5, "malformed"],
    [3, Number.NaN, "malformed"],
    [3, -1, "malformed"],
    [2.5, 1, "malformed"],
  ])("the writer refuses %d tests in %d ms", (tests, durationMs, reason) => {
    expect(makeEvidence(tests, durationMs)).toMatchObject({ ok: false, error: { reason } });
  });
});

describe("the command", () => {
  test("prints one line, from a log, a JUnit file or numbers", async () => {
    const cwd = fill(temporaryFolder(), {
      log: LOG,
      "j.xml": '<testsuite time="3.214"><testcase name="a"/></testsuite>',
    });
    const line = (tests: number) => `::notice title=gpu-gate-evidence::{"tests":${tests},"durationMs":3214}\n`;
    expect(await gpuGate(["evidence", "--nextest", "log"], { cwd })).toEqual({ code: 0, out: line(12), err: "" });
    expect(await gpuGate(["evidence", "--junit", "j.xml"], { cwd })).toEqual({ code: 0, out: line(1), err: "" });
    const numbers = ["--tests", "7", "--duration-ms", "3214"];
    expect(await gpuGate(["evidence", ...numbers])).toEqual({ code: 0, out: line(7), err: "" });
  });

  test("prints nothing and fails when no test ran", async () => {
    const answer = await gpuGate(["evidence", "--tests", "0", "--duration-ms", "10"]);
    expect(answer).toMatchObject({ code: 1, out: "" });
  });

  test.each([
    [["evidence"], "exactly one source"],
    [["evidence", "--tests", "1"], "--duration-ms"],
    [["evidence", "--tests", "1.5", "--duration-ms", "2"], "--tests needs a whole number"],
    [["evidence", "--junit", "a", "--nextest", "b"], "exactly one source"],
  ])("%j is a wrong call", async (args, hint) => {
    const answer = await gpuGate(args);
    expect(answer.code).toBe(2);
    expect(answer.err).toContain(hint);
  });
});

describe("observations from steps", () => {
  const job = (conclusion: string | null, step: string | null, before: string | null = "success"): ObservedJob => ({
    conclusion,
    steps: [
      { name: "Checkout", conclusion: before },
      { name: "Use cached archives", conclusion: step },
      { name: "Run", conclusion: "success" },
    ],
  });

  test.each([
    ["the step of the fact ran", [job("success", "success")], true],
    ["it ran and the job failed later", [job("failure", "success")], true],
    ["it was skipped in its normal course", [job("success", "skipped")], false],
    ["it failed", [job("failure", "failure")], null],
    ["everything was skipped after a failure", [job("failure", "skipped", "failure")], null],
    ["the job was cancelled", [job("cancelled", "skipped")], null],
    ["it has not ended", [job(null, null)], null],
    ["no job has such a step", [{ conclusion: "success", steps: [{ name: "Run", conclusion: "success" }] }], null],
    ["the job has no steps", [{ conclusion: "skipped" }], null],
    ["a second job of that step is unknown", [job("success", "skipped"), job("failure", "failure")], null],
  ])("%s", (_name, jobs, expected) => {
    expect(observeSteps({ archives: ["Use cached archives"] }, jobs)).toEqual({ archives: expected });
  });

  test("one of several steps is enough for yes, all are needed for no", () => {
    const facts = { toolkit: ["Use cached archives", "Run"], unknown: ["Use cached archives", "Elsewhere"] };
    expect(observeSteps(facts, [job("success", "skipped")])).toEqual({ toolkit: true, unknown: null });
  });
});
