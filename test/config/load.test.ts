/** One valid file; each test changes one thing and reads the problem a person would see. */
import { describe, expect, test } from "vitest";
import { configFrom, parseRepositoryConfig, problemText, type ConfigProblem } from "../../shared/config/load.ts";
import { limitMillis } from "../../shared/config/limits.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { DEFAULT_TIERS, PRICE_CEILING_USD_PER_HOUR } from "../../shared/runpod/default-tiers.ts";

const VALID = `version: 1
paths:
  docs:
    files: [README.md]
    prefixes: [docs/]
    except_prefixes: [docs/code/]
  ci:
    prefixes: [.github/workflows/, scripts/ci/]
lanes:
  docs:
    asked_by: [docs]
    checks: [Documentation]
  gpu:
    control:
      files: [scripts/ci/gpu.sh]
    hosted_only:
      files: [scripts/ci/cost.sh]
  full:
    own:
      runs_on: [self-hosted, linux, gpu-full]
      switch: GPU_ENABLED
    checks: [Coverage GPU]
`;

function accepted(text: string): RepositoryConfig {
  const config = parseRepositoryConfig(text);
  if (!config.ok) throw new Error(config.error.map((problem) => problemText(problem, "f")).join("\n"));
  return config.value;
}

function problems(text: string): ConfigProblem[] {
  const config = parseRepositoryConfig(text);
  if (config.ok) throw new Error("the file was accepted");
  return config.error;
}

/** The only problem of a file, as people see it. */
function onlyProblem(text: string): string {
  const found = problems(text).map((problem) => problemText(problem, "f"));
  expect(found).toHaveLength(1);
  return found[0] ?? "";
}

/** One entry of `gpu.nvrtc`. */
const NVRTC = `{url: "https://files.example/nvrtc.whl", sha256: "${"0".repeat(64)}"}`;

const change = (from: string, to: string): string => {
  expect(VALID).toContain(from);
  return VALID.replace(from, to);
};

describe("what is accepted", () => {
  test("the smallest file has every default of the design", () => {
    const config = accepted("version: 1\n");
    expect(config.check.name).toBe("CI GPU gate");
    expect(config.start).toBe("auto");
    expect(config.tested_revision).toBe("merge");
    expect(config.pre_gate).toEqual(["rustfmt", "clippy"]);
    expect(config.access.roles).toEqual(["admin", "maintain"]);
    expect(config.budget).toEqual({ per_run: 3, per_day: 20, per_month: 200, per_pr: null, per_author: null });
    expect(config.gpu.price_ceiling_usd_per_hour).toBe(1.6);
    expect(config.gpu.min_vram_gb).toBe(8);
    expect(config.gpu.max_attempts).toBe(6);
    expect(config.evidence).toMatchObject({ min_tests: 1, min_seconds: 20 });
    expect(config.retention).toEqual({ keep_on_failure: false, duration: 3600, max_retention: 10_800 });
    expect(config.merge_queue.margin).toBe(120);
    expect(config.limits).toMatchObject({
      create_walk: 60,
      create_look_up: 180,
      dispatch_look_up: 120,
      preparation: 5100,
      queue_wait: 21_600,
      trigger_start: 900,
      acceptance: 420,
      no_machine: 120,
      setup: 900,
      lifetime: 3600,
      backstop: 7200,
      watch_poll: 15,
      watch_poll_tests: 5,
      outage_idle: 300,
      delete_retry: 5,
      delete_pause_base: 15,
      delete_pause_cap: 300,
      reconcile: 300,
      reservation: 4320,
    });
  });

  test("the lane gpu exists whether it is written or not", () => {
    expect(Object.keys(accepted("version: 1").lanes)).toEqual(["gpu"]);
    expect(Object.keys(accepted(VALID).lanes)).toEqual(["gpu", "docs", "full"]);
  });

  test("a local world may run a whole life in fractions of a second", () => {
    const config = accepted("version: 1\nlimits: {create_walk: 0.5, watch_poll: 0.05, setup: 1.25, lifetime: 2}\n");
    expect(limitMillis(config)).toMatchObject({ create_walk: 500, watch_poll: 50, setup: 1250, lifetime: 2000 });
  });

  test("an object gives the same configuration as its text", () => {
    expect(configFrom({ start: "label" })).toEqual(accepted("version: 1\nstart: label\n"));
  });
});

describe("what is refused, with its place and the way out", () => {
  test("an empty file, a comment, a list", () => {
    expect(onlyProblem("")).toBe("f:1:1: the file holds no settings. Write at least `version: 1`.");
    expect(onlyProblem("# nothing yet\n")).toContain("the file holds no settings");
    expect(onlyProblem("- version\n")).toContain("a map of keys is needed here, not a list");
  });

  test("YAML that cannot be read", () => {
    expect(onlyProblem("version: 1\nstart: [auto\n")).toMatch(/^f:\d+:\d+: not readable as YAML: /);
  });

  test.each([
    ["version: 1\n foo: 2\n", "1:10", "a value is followed by another `key: value`, on its line or indented below it"],
    ["version: 1\nstart: auto: label\n", "2:8", "a value is followed by another `key: value`"],
    ["version: [", "1:11", "a `[` is opened and not closed before this place. Close it with `]`."],
    ["version: 1\nbudget: {per_run: 1\nstart: auto\n", "3:1", "a `{` is opened and not closed"],
    ["version: 1\nlanes:\n\tx: {}\n", "3:1", "a tab is used for indentation. Indent with blanks."],
    ["version: 1\n- x\n", "2:1", "a key without a colon"],
    ['version: 1\nstart: "auto\n', "3:1", "a quotation mark is not closed before this place"],
    ["version: 1\nstart: @auto\n", "2:8", "a value begins with a character that YAML keeps for itself"],
    ["---\nversion: 1\n---\nversion: 1\n", "3:1", "a second document begins here"],
    ['version: 1\nstart: "\\q"\n', "2:9", "there is no such escape in double quotes"],
    ["version: 1\nstart: !x auto\n", "2:8", "a word with `!` in front is a tag, and no tag is known here"],
    ["version: 1\nstart: 'auto' x\n", "2:15", "something stands here that does not belong here"],
  ])("YAML's own words stay away, and one fault is told once: %j", (text, place, words) => {
    const problem = onlyProblem(text);
    expect(problem).toContain(`f:${place}: not readable as YAML: ${words}`);
    expect(problem).not.toMatch(/implicit|flow|compact|scalar|parseAll/i);
  });

  test("a key written twice", () => {
    expect(onlyProblem("version: 1\nstart: auto\nstart: label\n")).toBe(
      "f:3:1: this key is written twice in the same place. Keep one of the two.",
    );
  });

  test("an unknown key, with the nearest one", () => {
    expect(onlyProblem(`${VALID}bugdet: {}\n`)).toBe(
      "f:23:1: bugdet: there is no key `bugdet` at the top level. Did you mean `budget`?",
    );
    expect(onlyProblem(change("    checks: [Documentation]", "    cheks: [Documentation]"))).toBe(
      "f:12:5: lanes.docs.cheks: there is no key `cheks` under `lanes.docs`. Did you mean `checks`?",
    );
  });

  test("an unknown key that resembles nothing gets the list of known ones", () => {
    expect(onlyProblem("version: 1\nbudget: {zzzzzzzzz: 1}\n")).toContain("Known here: per_run, per_day, per_month");
  });

  test("a missing version, a version of the future", () => {
    expect(onlyProblem("start: auto\n")).toContain("version: this key is missing. Write `version: 1`.");
    expect(onlyProblem("version: 2\n")).toContain("only `1` is possible here");
  });

  test("one value is told of once, by what is wrong first", () => {
    expect(onlyProblem("version: 1\nlanes: {gpu: {asked_by: docs}}\n")).toContain(
      "lanes.gpu.asked_by: a list is needed here, not the text `docs`.",
    );
    expect(onlyProblem('version: 1\nstart_words: {comment: ""}\n')).toContain("start_words.comment: ");
  });

  test("a value that is none of the possible ones", () => {
    expect(onlyProblem("version: 1\nstart: lable\n")).toBe(
      "f:2:8: start: only `auto`, `label`, `comment`, `approval` are possible here. Did you mean `label`?",
    );
  });

  test.each([
    ["gpu: {price_ceiling_usd_per_hour: 1.61}", "gpu.price_ceiling_usd_per_hour: at most 1.6 here"],
    ["limits: {backstop: 7201}", "limits.backstop: at most 7200 here"],
    ["limits: {setup: 0}", "limits.setup: at least 0.05 here"],
    ["limits: {watch_poll: -1}", "limits.watch_poll: at least 0.05 here"],
    ["gpu: {count: 2}", "gpu.count: it must be 1: a pod proves one GPU before it runs anything"],
    ["gpu: {count: '1'}", "gpu.count: it must be 1: a pod proves one GPU"],
    ["gpu: {min_vram_gb: 4}", "gpu.min_vram_gb: at least 8 here"],
    ["evidence: {min_tests: 0}", "evidence.min_tests: at least 1 here"],
    ["budget: {per_run: -1}", "budget.per_run: at least 0 here"],
    ["budget: {per_month: .inf}", "budget.per_month"],
    ["limits: {queue_wait: .nan}", "limits.queue_wait"],
    ["newest_head_only: false", "newest_head_only: only `true` is possible here"],
    ["access: {roles: []}", "access.roles: at least 1 entry here"],
    ["access: {roles: [read]}", "access.roles[0]: only `admin`, `maintain`, `write` are possible here"],
    ["runner: {group_id: 12}", 'runner.group_id: a text is needed here, not `12`. Write "12" in quotes.'],
    ["gpu: {cuda_versions: ['12.4']}", "gpu.cuda_versions[0]: CUDA 12.4 is below the floor 12.6"],
    ["gpu: {image: 'http://evil/x:1'}", "gpu.image: it must be registry/name:tag"],
    [
      "gpu: {nvrtc: {'12.8': {url: 'http://example.org/x', sha256: aa}}}",
      "gpu.nvrtc.12.8.url: it must be an https:// address",
    ],
    [
      `gpu: {nvrtc: {"12.8": ${NVRTC}}}`,
      "gpu.nvrtc: NVRTC 12.6 is missing, which pods with a driver of CUDA 12.6, 12.7 need: each would be bought and refused",
    ],
    [
      `gpu: {cuda_versions: ["12.8", "13.0"], nvrtc: {"12.6": ${NVRTC}}}`,
      "gpu.nvrtc: NVRTC 12.8 is missing, which pods with a driver of CUDA 12.8, 13.0 need",
    ],
    [
      `gpu: {nvrtc: {"13.0": ${NVRTC}}}`,
      "gpu.nvrtc.13.0: `13.0` is no NVRTC that a pod takes. The versions are 12.6 and 12.8: drivers of CUDA 12.8 and newer, 13.0 included, take 12.8",
    ],
    ['check: {name: "a\\nb"}', "check.name: it must be one line"],
    ["workflows: {execute: ../x.yml}", "workflows.execute: it must be `.github/workflows/<name>.yml`"],
    ["pre_gate: [CI GPU gate]", "pre_gate[0]: the gate cannot wait for its own check"],
    ["pre_gate: [a, a]", "pre_gate[1]: check `a` is listed twice"],
    ["merge_queue: {pre_gate: [CI GPU gate]}", "merge_queue.pre_gate[0]: the gate cannot wait for its own check"],
    ["merge_queue: {pre_gate: [a, a]}", "merge_queue.pre_gate[1]: check `a` is listed twice"],
    [
      "pre_gate: [All]\naggregator: {name: All}\nrequired_checks: [{name: CI GPU gate, report: must}]",
      "pre_gate[0]: the gate cannot wait for a check that waits for the gate: `All` waits for `CI GPU gate`",
    ],
    [
      "merge_queue: {pre_gate: [All]}\naggregator: {name: All}\nrequired_checks: [{name: X, waits_for: [CI GPU gate]}]",
      "merge_queue.pre_gate[0]: the gate cannot wait for a check that waits for the gate: `All` waits for `X` waits for `CI GPU gate`",
    ],
    [
      "pre_gate: [X]\nrequired_checks: [{name: X, waits_for: [CI GPU gate]}]",
      "pre_gate[0]: the gate cannot wait for a check that waits for the gate: `X` waits for `CI GPU gate`",
    ],
    ["required_checks: [{name: X, waits_for: [X]}]", "required_checks[0].waits_for[0]: `X` waits for itself"],
    [
      "required_checks: [{name: X, waits_for: [Y]}, {name: Y, waits_for: [X]}]",
      "required_checks[0].waits_for[0]: `X` waits for itself: `Y`, which waits for `X`",
    ],
    ["required_checks: [{name: X, waits_for: [Y, Y]}]", "required_checks[0].waits_for[1]: check `Y` is listed twice"],
    ["evidence: {test_steps: [T, T]}", "evidence.test_steps[1]: step `T` is listed twice"],
    [
      "merge_queue: {margin: 100, default_timeout: 100}",
      "merge_queue.margin: 100 s leave nothing of `merge_queue.default_timeout` (100 s)",
    ],
    ["limits: {owner_grace: 300}", "limits.owner_grace: `owner_grace` is no key any more: it never had an effect"],
    ["runner: {label_prefix: x}", "runner.label_prefix: `label_prefix` is no key any more: it never had an effect"],
    ["runner: {run_as: root}", "runner.run_as: `run_as` is no key any more: it never had an effect"],
    [
      "aggregator: {name: All}\nrequired_checks: [{name: All}]",
      "required_checks[0].name: the aggregator cannot wait for its own check",
    ],
    [
      "aggregator: {name: All}\nrequired_checks: [{name: Docs, waits_for: [All]}]",
      "required_checks[0].waits_for: the aggregator cannot wait for its own check",
    ],
    ["limits: {setup: 100, lifetime: 50}", "limits.setup: 100 s is more than `limits.lifetime` (50 s)"],
    ["limits: {no_machine: 500}", "limits.no_machine: 500 s is more than `limits.acceptance`"],
    ["limits: {reservation: 4000}", "limits.reservation: 4000 s reserve less than an attempt may cost"],
    ["retention: {duration: 3601, max_retention: 3600}", "retention.duration: 3601 s is more than `retention.max_"],
    ["retention: {max_retention: 10801}", "retention.max_retention: at most 10800 here"],
    ["retention: {duration: 43200, max_retention: 43200}", "retention.duration: at most 10800 here"],
  ])("%s", (line, expected) => {
    expect(
      problems(`version: 1\n${line}\n`)
        .map((problem) => problemText(problem, "f"))
        .join("\n"),
    ).toContain(expected);
  });

  test.each([
    "pre_gate: [All]\naggregator: {name: All}\nrequired_checks: [{name: Docs}]",
    "merge_queue: {margin: 99, default_timeout: 100}",
    "required_checks: [{name: X, waits_for: [Y]}, {name: Y, waits_for: [Z]}]",
    `gpu: {nvrtc: {"12.6": ${NVRTC}, "12.8": ${NVRTC}}}`,
    `gpu: {cuda_versions: ["12.8", "13.0"], nvrtc: {"12.8": ${NVRTC}}}`,
    `gpu: {cuda_versions: ["12.6", "12.7"], nvrtc: {"12.6": ${NVRTC}}}`,
  ])("and nothing is wrong with %s", (line) => {
    expect(accepted(`version: 1\n${line}\n`).version).toBe(1);
  });

  test.each([
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H100 NVL",
    "NVIDIA H200",
    "NVIDIA B200",
    "NVIDIA GH200 480GB",
    "AMD Instinct MI300X OAM",
  ])("the GPU %s", (id) => {
    const text = `version: 1\ngpu:\n  tiers:\n    - {name: big, gpu_ids: ["NVIDIA L4", "${id}"]}\n`;
    expect(onlyProblem(text)).toContain(`f:4:42: gpu.tiers[0].gpu_ids[1]: \`${id}\` is of the H100 class`);
  });

  test.each([
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA RTX A5000",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA L40S",
    "NVIDIA RTX 2000 Ada Generation",
  ])("not the GPU %s", (id) => {
    expect(accepted(`version: 1\ngpu: {tiers: [{name: t, gpu_ids: ["${id}"]}]}\n`).gpu.tiers[0]?.gpu_ids).toEqual([id]);
  });

  test("a tier's price above the ceiling, a GPU in two tiers", () => {
    const tiers = "tiers: [{name: a, gpu_ids: [NVIDIA L4], max_usd_per_hour: 0.9}, {name: b, gpu_ids: [NVIDIA L4]}]";
    expect(problems(`version: 1\ngpu: {price_ceiling_usd_per_hour: 0.5, ${tiers}}\n`).map(({ path }) => path)).toEqual([
      "gpu.tiers[0].max_usd_per_hour",
      "gpu.tiers[1].gpu_ids[0]",
    ]);
  });

  test("a folder without its slash would match more than the folder", () => {
    expect(onlyProblem(change("prefixes: [docs/]", "prefixes: [docs]"))).toContain(
      "paths.docs.prefixes[0]: it must end with `/`",
    );
  });

  test.each(["/docs/", "./docs/", "docs//", "docs/../", " docs/"])(
    "the folder '%s', which git never prints",
    (entry) => {
      expect(problems(change("prefixes: [docs/]", `prefixes: ['${entry}']`))[0]?.path).toBe("paths.docs.prefixes[0]");
    },
  );
});

describe("rules over several keys", () => {
  test("device and hosted-only sets overlap by name", () => {
    expect(onlyProblem(change("files: [scripts/ci/cost.sh]", "files: [scripts/ci/gpu.sh]"))).toBe(
      "f:17:15: lanes.gpu.hosted_only.files[0]: `scripts/ci/gpu.sh` overlaps `scripts/ci/gpu.sh` in this lane's `control`. Keep it in one of the two sets.",
    );
  });

  test("device and hosted-only sets overlap by folder, either way round", () => {
    expect(onlyProblem(change("files: [scripts/ci/cost.sh]", "prefixes: [scripts/ci/]"))).toContain(
      "overlaps `scripts/ci/gpu.sh`",
    );
    expect(onlyProblem(change("      files: [scripts/ci/gpu.sh]", "      prefixes: [scripts/ci/]"))).toContain(
      "`scripts/ci/cost.sh` overlaps `scripts/ci/`",
    );
  });

  test("the trusted workflows and the policy itself cannot be declared hosted-only", () => {
    const text = change("files: [scripts/ci/cost.sh]", "files: [.github/workflows/gpu-gate-execute.yml]");
    expect(onlyProblem(text)).toContain("always counts as device control");
  });

  test("a lane that its light class can never reach", () => {
    const text = "version: 1\nlanes: {docs: {asked_by: [docs]}}\n";
    expect(onlyProblem(text)).toContain("lanes.docs.asked_by[0]: lane `docs` is never reached by `docs`");
  });

  test("a control file that is code anyway", () => {
    expect(onlyProblem(change("files: [scripts/ci/gpu.sh]", "files: [src/gpu.rs]"))).toContain(
      "lanes.gpu.control.files[0]: `src/gpu.rs` never reaches lane `gpu` from here",
    );
  });

  test("two owners of one check", () => {
    expect(onlyProblem(change("checks: [Coverage GPU]", "checks: [Documentation]"))).toBe(
      "f:22:14: lanes.full.checks[0]: check `Documentation` already belongs to lane `docs`. A check has one owner; remove it from one.",
    );
    expect(onlyProblem(change("checks: [Coverage GPU]", "checks: [CI GPU gate]"))).toContain(
      "already belongs to the gate itself",
    );
    expect(onlyProblem(`${VALID}aggregator: {name: CI GPU gate}\n`)).toContain("already belongs to the gate itself");
  });

  test("one label set for two lanes, whatever the order and the case", () => {
    const second = "  other: {own: {runs_on: [GPU-full, Linux, self-hosted], switch: OTHER}}\n";
    expect(onlyProblem(VALID + second)).toContain("this label set already belongs to lane `full`");
  });

  test("the rented lane cannot be a machine of your own", () => {
    expect(onlyProblem("version: 1\nlanes: {gpu: {own: {runs_on: [x], switch: X}}}\n")).toContain(
      "the lane `gpu` is the rented one",
    );
  });

  test("a lane's name must be a possible output name", () => {
    expect(onlyProblem("version: 1\nlanes: {Two-GPU: {}}\n")).toContain("`Two-GPU` cannot be a lane's name");
  });

  test("every problem is reported at once, in the order of the file", () => {
    const found = problems("version: 1\nstart: x\nbudgte: 1\nlimits: {setup: 0}\n");
    expect(found.map(({ line }) => line)).toEqual([2, 3, 4]);
  });
});

describe("hostile files", () => {
  test("an alias bomb", () => {
    const levels = Array.from(
      { length: 12 },
      (_, n) => `x${n + 1}: &x${n + 1} [${Array(10).fill(`*x${n}`).join(", ")}]`,
    );
    expect(onlyProblem(`x0: &x0 [a]\n${levels.join("\n")}\n`)).toContain("aliases cannot be resolved");
  });

  test("a file beyond any sensible size", () => {
    expect(onlyProblem(`version: 1\n#${"x".repeat(300_000)}`)).toContain("characters");
  });

  test("a tag that asks for code", () => {
    expect(problems("version: 1\nstart: !!js/function 'x'\n").length).toBeGreaterThan(0);
  });

  test.each(["__proto__", "constructor", "toString"])("the key %s", (key) => {
    expect(problems(`version: 1\n${key}: {shadow: true}\n`)[0]?.message).toContain("there is no key");
    expect(Object.hasOwn(Object.prototype, "shadow")).toBe(false);
  });

  test("problems are bounded", () => {
    const keys = Array.from({ length: 500 }, (_, n) => `k${n}: 1`).join("\n");
    expect(problems(`version: 1\n${keys}\n`).length).toBeLessThanOrEqual(50);
  });
});

describe("one workflow file in two parts can never work", () => {
  const parts = ["prepare", "execute", "recovery", "validation", "trigger", "cache_publisher"];
  const pairs = parts
    .flatMap((one, index) => parts.slice(index + 1).map((other) => [one, other] as const))
    .filter((pair) => pair.join(" ") !== "trigger cache_publisher");

  test.each(pairs)("%s and %s", (one, other) => {
    const file = ".github/workflows/both.yml";
    const said = onlyProblem(`version: 1\nworkflows:\n  ${one}: ${file}\n  ${other}: ${file}\n`);
    expect(said).toContain(`\`${file}\` is also \`workflows.${one}\``);
    expect(said).toContain("Give each its own file.");
    expect(said).toMatch(/4:\d+/);
  });

  test("named against a default as well", () => {
    const said = onlyProblem("version: 1\nworkflows:\n  recovery: .github/workflows/gpu-gate-execute.yml\n");
    expect(said).toContain("also `workflows.execute`, which runs on the rented machine");
  });

  test("but CI may publish the caches, and no trigger is no file", () => {
    const ci = ".github/workflows/ci.yml";
    expect(accepted(`version: 1\nworkflows:\n  cache_publisher: ${ci}\n`).workflows).toMatchObject({
      trigger: ci,
      cache_publisher: ci,
    });
    expect(accepted("version: 1\nworkflows:\n  trigger: none\n").workflows.trigger).toBe("none");
  });
});

test("the reviewed tiers are the defaults, in one list for the configuration and for the market", () => {
  const { tiers, price_ceiling_usd_per_hour: ceiling } = accepted("version: 1\n").gpu;
  expect(tiers.map((tier) => [tier.name, tier.gpu_ids])).toEqual(DEFAULT_TIERS.map((tier) => [tier.name, tier.gpuIds]));
  expect(ceiling).toBe(PRICE_CEILING_USD_PER_HOUR);
});
