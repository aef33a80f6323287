/** A required name always ends in a run, a spoken no-op or a failure. */
import { describe, expect, test } from "vitest";
import { configFrom } from "../../shared/config/load.ts";
import { plainFile } from "../../shared/policy/changes.ts";
import { classify } from "../../shared/policy/classify.ts";
import {
  requiredOutcome,
  requiredPlans,
  type JobReport,
  type RequiredPlan,
} from "../../shared/policy/required-jobs.ts";
import { err, ok } from "../../shared/result.ts";

const config = configFrom({
  paths: { docs: { prefixes: ["docs/"] }, ci: { prefixes: ["scripts/ci/"] } },
  lanes: {
    linux: { checks: ["Linux tests"] },
    docs: { asked_by: ["docs"], checks: ["Documentation"] },
    macos: { control: { files: ["scripts/ci/macos.sh"] }, checks: ["macOS tests"] },
  },
  required_checks: [{ name: "Linux tests" }, { name: "Documentation" }, { name: "macOS tests" }, { name: "Licence" }],
});

function kinds(...paths: string[]): string[] {
  const result = classify(config, { event: "pull_request", files: paths.map(plainFile), problem: null });
  return requiredPlans(config, ok(result)).map((plan) => `${plan.name}: ${plan.kind}`);
}

describe("the plan", () => {
  test("code runs everything", () => {
    expect(kinds("src/lib.rs")).toEqual(["Linux tests: run", "Documentation: run", "macOS tests: run", "Licence: run"]);
  });

  test("documentation leaves the compiled lanes a no-op; a name without a lane always runs", () => {
    expect(kinds("docs/a.md")).toEqual([
      "Linux tests: no-op",
      "Documentation: run",
      "macOS tests: no-op",
      "Licence: run",
    ]);
  });

  test("the macOS lane runs on its own control file, beside an idle Linux lane", () => {
    expect(kinds("scripts/ci/macos.sh")).toEqual([
      "Linux tests: no-op",
      "Documentation: no-op",
      "macOS tests: run",
      "Licence: run",
    ]);
    expect(kinds("scripts/ci/other.sh")[2]).toBe("macOS tests: no-op");
  });

  test("a no-op says why it has nothing to do", () => {
    const result = classify(config, { event: "pull_request", files: [plainFile("docs/a.md")], problem: null });
    expect(requiredPlans(config, ok(result))[0]).toMatchObject({
      kind: "no-op",
      reason: "docs-only: linux not asked for (documentation: docs/a.md)",
    });
  });

  test("a failed classification fails every required name", () => {
    const plans = requiredPlans(config, err({ reason: "the configuration cannot be read" }));
    expect(plans.map(({ kind }) => kind)).toEqual(["failure", "failure", "failure", "failure"]);
  });

  test("a lane the classification does not mention is not a lane that is off", () => {
    const other = classify(configFrom(), { event: "pull_request", files: [plainFile("docs/a.md")], problem: null });
    expect(requiredPlans(config, ok(other))[0]?.kind).toBe("failure");
  });
});

describe("the outcome", () => {
  const run: RequiredPlan = { kind: "run", name: "macOS tests", lane: "macos" };
  const idle: RequiredPlan = { kind: "no-op", name: "macOS tests", lane: "macos", reason: "docs-only" };
  const failed: RequiredPlan = { kind: "failure", name: "macOS tests", reason: "classification failed: x" };
  const reports: JobReport[] = ["success", "failure", "cancelled", "timed_out", "skipped", "absent", "no-device"];
  const green = (plan: RequiredPlan): JobReport[] => reports.filter((report) => requiredOutcome(plan, report).success);

  test("a lane that was asked for needs a real success; a missing device is a failure", () => {
    expect(green(run)).toEqual(["success"]);
    expect(requiredOutcome(run, "no-device").reason).toBe("found no device to test on");
  });

  test("a no-op must have been spoken", () => {
    expect(green(idle)).toEqual(["success"]);
  });

  test("nothing makes up for a failed classification", () => {
    expect(green(failed)).toEqual([]);
  });
});
