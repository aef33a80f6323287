/** The change policy: one configuration, one rule a test; then what must hold for every list of paths. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { configFrom } from "../../shared/config/load.ts";
import { plainFile, type ChangedFile, type ListProblem } from "../../shared/policy/changes.ts";
import { changePolicy, REASON_PATHS, type Classification } from "../../shared/policy/classify.ts";
import { explainPaths } from "../../shared/policy/explain.ts";
import { outputText, outputValues } from "../../shared/policy/outputs.ts";
import { byCodePoint, pathsFromText } from "../../shared/policy/paths.ts";

const config = configFrom({
  paths: {
    docs: { files: ["README.md"], prefixes: ["docs/"], except_prefixes: ["docs/code/"] },
    ci: { files: [".github/dependabot.yml"], prefixes: [".github/workflows/", "scripts/ci/"] },
  },
  lanes: {
    rust: {},
    docs: { asked_by: ["docs"] },
    ci_config: { asked_by: ["ci"] },
    macos: { control: { files: ["scripts/ci/macos.sh", "scripts/ci/both.sh"] } },
    gpu: {
      control: { files: ["scripts/ci/gpu.sh", "scripts/ci/both.sh"], prefixes: ["scripts/ci/device/"] },
      hosted_only: { files: ["scripts/ci/cost.sh"] },
    },
  },
});
const policy = changePolicy(config);

function files(...paths: string[]): ChangedFile[] {
  return paths.map(plainFile);
}

function classified(list: ChangedFile[], event = "pull_request", problem: ListProblem | null = null): Classification {
  return policy.classify({ event, files: list, problem });
}

/** Class and lanes as one line: `ci-only: ci_config macos`. */
function line(result: Classification): string {
  const on = Object.keys(result.lanes).filter((lane) => result.lanes[lane] === true);
  return `${result.classification}: ${on.join(" ")}`.trim();
}

const FULL = "code: gpu rust docs ci_config macos";

describe("classes and lanes", () => {
  test.each([
    [["docs/a.md"], "docs-only: docs"],
    [["README.md", "docs/deep/er/b.md"], "docs-only: docs"],
    [Array.from({ length: 10 }, (_, n) => `docs/${n}.md`), "docs-only: docs"],
    [["docs/a.md", "src/lib.rs"], FULL],
    [["src/lib.rs"], FULL],
    [["docs/code/main.rs"], FULL],
    [["docs/code"], "docs-only: docs"],
    [[".github/workflows/x.yml"], "ci-only: ci_config"],
    [[".github/workflows/sub/x.yml"], "ci-only: ci_config"],
    [[".github/dependabot.yml", "docs/a.md"], "ci-only: docs ci_config"],
    [["scripts/ci/macos.sh"], "ci-only: ci_config macos"],
    [["scripts/ci/gpu.sh"], "ci-only: gpu ci_config"],
    [["scripts/ci/device/x/y.sh"], "ci-only: gpu ci_config"],
    [["scripts/ci/both.sh"], "ci-only: gpu ci_config macos"],
    [["scripts/ci/cost.sh"], "ci-only: ci_config"],
    [["scripts/ci/cost.sh", "scripts/ci/gpu.sh"], "ci-only: gpu ci_config"],
    [[".github/workflows/gpu-gate-execute.yml"], "ci-only: gpu ci_config"],
    [[".github/gpu-gate.yml"], FULL],
    [[".github/CODEOWNERS"], FULL],
    [[], FULL],
  ])("%j is %s", (paths, expected) => {
    expect(line(classified(files(...paths)))).toBe(expected);
  });

  test.each([
    "readme.md",
    "Docs/a.md",
    "crates/x/README.md",
    "docs",
    "docsx/a.md",
    "docs\\a.md",
    "/docs/a.md",
    "../docs/a.md",
    "./docs/a.md",
    "\ufeffREADME.md",
    "\u200bREADME.md",
    " README.md",
    "README.md ",
    '"docs/a\\n.md"',
  ])("the exact name %j is none of the known ones, hence code", (path) => {
    expect(line(classified(files(path)))).toBe(FULL);
  });

  test.each([
    "docs/../src/main.rs",
    "docs//a.md",
    "docs/./a.md",
    "docs/",
    "docs/.git/config",
    "docs/.GIT/x",
    "docs/a\u0000.md",
    "scripts/ci/../../x",
    "",
  ])("git never prints %j, so a prefix does not make it cheap", (path) => {
    const result = classified(files("docs/a.md", path));
    expect(line(result)).toBe(FULL);
    expect(result.reasons[0].rule).toBe("impossible-path");
  });

  test.each(["docs/a b c.md", "docs/..a/b.md", "docs/a..", "docs/.gitignore", "docs/a\\b.md", "docs/\u{1f600}.md"])(
    "git may print %j, so it is what its folder is",
    (path) => {
      expect(line(classified(files(path)))).toBe("docs-only: docs");
    },
  );

  test("both sides of a rename count: code moved into the documentation is code", () => {
    const moved: ChangedFile = { path: "docs/kernel.md", previousPath: "src/kernel.cu", special: null };
    const result = classified([moved]);
    expect(line(result)).toBe(FULL);
    expect(result.reasons[0].paths).toEqual(["src/kernel.cu"]);
  });

  test.each(["submodule", "symlink", "mode-only", "no-visible-change", "unknown-status"] as const)(
    "a %s in the documentation is code",
    (special) => {
      const result = classified([{ path: "docs/a", previousPath: null, special }, plainFile("docs/b.md")]);
      expect(line(result)).toBe(FULL);
      expect(result.reasons[0]).toMatchObject({ rule: "special-entry", paths: ["docs/a"] });
    },
  );

  test.each<ListProblem>([
    { kind: "count-mismatch", received: 2, declared: 3 },
    { kind: "list-cap", declared: 3000 },
    { kind: "unreadable", detail: "page 2 answered 502" },
  ])("a list with the problem $kind is code, and says so", (problem) => {
    const result = classified(files("docs/a.md"), "pull_request", problem);
    expect(line(result)).toBe(FULL);
    expect(result.reasons[0].rule).toBe("list-problem");
  });

  test("a push runs everything but the paid lane, whatever it holds", () => {
    const pushed = "code: rust docs ci_config macos";
    expect(line(classified([], "push"))).toBe(pushed);
    expect(line(classified(files("src/lib.rs"), "push"))).toBe(pushed);
    expect(line(classified(files("docs/a.md"), "push", { kind: "unreadable", detail: "x" }))).toBe(pushed);
    expect(line(classified(files("docs/a.md"), "PUSH"))).toBe("docs-only: docs");
  });

  test("a path in both light sets asks for what each asks for", () => {
    const both = changePolicy(
      configFrom({
        paths: { docs: { prefixes: ["docs/"] }, ci: { files: ["docs/conf.py"] } },
        lanes: { docs: { asked_by: ["docs"] }, ci: { asked_by: ["ci"] } },
      }),
    );
    expect(line(both.classify({ event: "pull_request", files: files("docs/conf.py"), problem: null }))).toBe(
      "ci-only: docs ci",
    );
  });

  test("an exactly named document inside an excepted folder stays a document", () => {
    const named = changePolicy(
      configFrom({
        paths: { docs: { files: ["docs/code/README.md"], prefixes: ["docs/"], except_prefixes: ["docs/code/"] } },
      }),
    );
    expect(
      named.classify({ event: "pull_request", files: files("docs/code/README.md"), problem: null }).classification,
    ).toBe("docs-only");
  });
});

describe("reasons", () => {
  test("name the paths that decided, in code point order, as many as fit", () => {
    const paths = Array.from({ length: 40 }, (_, n) => `src/${String(n).padStart(2, "0")}.rs`);
    const [first] = classified(files(...paths.toReversed(), "docs/a.md")).reasons;
    expect(first.paths).toEqual(paths.slice(0, REASON_PATHS));
    expect(first.more).toBe(30);
    expect(first.text).toMatch(/^code or unknown paths: src\/00\.rs, .* and 30 more$/);
  });

  test("a long path is cut in the text, so that the text is bounded", () => {
    const paths = Array.from({ length: 500 }, (_, n) => `src/${n}-${"x".repeat(4000)}`);
    expect(classified(files(...paths)).reasons[0].text.length).toBeLessThan(3000);
  });

  test("say which paths steer a lane", () => {
    const { reasons } = classified(files("scripts/ci/both.sh", "scripts/ci/x.sh", "docs/a.md"));
    expect(reasons.map(({ rule, lane, paths }) => ({ rule, lane, paths }))).toEqual([
      { rule: "ci", lane: null, paths: ["scripts/ci/both.sh", "scripts/ci/x.sh"] },
      { rule: "docs", lane: null, paths: ["docs/a.md"] },
      { rule: "lane-control", lane: "gpu", paths: ["scripts/ci/both.sh"] },
      { rule: "lane-control", lane: "macos", paths: ["scripts/ci/both.sh"] },
    ]);
  });
});

describe("paths from text", () => {
  test.each([
    [["./docs/a.md"], ["docs/a.md"]],
    [["././docs/a.md"], ["./docs/a.md"]],
    [["  README.md\r"], ["README.md"]],
    [["", "   ", "\t"], []],
    [["\u001c\u0085README.md\u3000"], ["README.md"]],
    [["\ufeffREADME.md"], ["\ufeffREADME.md"]],
    [["\u200bREADME.md"], ["\u200bREADME.md"]],
    [["./"], [""]],
  ])("%j becomes %j", (raw, expected) => {
    expect(pathsFromText(raw)).toEqual(expected);
  });

  test("order is by code point: a sign beyond U+FFFF sorts after one below it", () => {
    expect(["\u{1f600}", "\uff5e", "a", "ab", "\ue000"].sort(byCodePoint)).toEqual([
      "a",
      "ab",
      "\ue000",
      "\uff5e",
      "\u{1f600}",
    ]);
  });

  test("the order agrees with the order of UTF-8 bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (left, right) => {
        expect(Math.sign(byCodePoint(left, right))).toBe(
          Math.sign(Buffer.compare(Buffer.from(left), Buffer.from(right))),
        );
      }),
    );
  });
});

describe("outputs", () => {
  test("are the class, one flag for every lane, and the reason", () => {
    expect(outputValues(classified(files("docs/a.md")))).toEqual([
      ["classification", "docs-only"],
      ["run_gpu", "false"],
      ["run_rust", "false"],
      ["run_docs", "true"],
      ["run_ci_config", "false"],
      ["run_macos", "false"],
      ["reason", "documentation: docs/a.md"],
    ]);
  });

  test.each(["\n", "\r", "\r\n", "\u2028", "\u0085"])("a file name with %j cannot forge another output", (sign) => {
    const result = classified(files(`docs/a${sign}run_gpu=false`));
    expect(outputText(result)).toEqual({ ok: false, error: { reason: "line-break", name: "reason" } });
  });
});

describe("explanations", () => {
  test("name the entry that decides for each path", () => {
    const explained = explainPaths(config, [
      "docs/a.md",
      "docs/code/x.rs",
      "scripts/ci/both.sh",
      "scripts/ci/cost.sh",
      "src/x.rs",
      "docs//x",
    ]);
    expect(explained.map(({ kind, because }) => `${kind}: ${because}`)).toEqual([
      "docs: paths.docs has the folder `docs/`",
      "code: paths.docs.except_prefixes has the folder `docs/code/`, so it is code",
      "ci: paths.ci has the folder `scripts/ci/`",
      "ci: paths.ci has the folder `scripts/ci/`",
      "code: no entry of paths.docs or paths.ci matches, so it is code",
      "code: git never prints such a path, so it is taken for code",
    ]);
    expect(explained[2]).toMatchObject({ alone: "ci-only", lanes: ["gpu", "ci_config", "macos"] });
    expect(explained[3]?.neverAsksFor).toEqual([{ lane: "gpu", entry: "scripts/ci/cost.sh" }]);
  });
});

describe("for every list of paths", () => {
  const path = fc.oneof(
    fc.constantFrom(
      "README.md",
      "docs/a.md",
      "docs/code/x.rs",
      "scripts/ci/gpu.sh",
      "scripts/ci/cost.sh",
      "scripts/ci/both.sh",
      ".github/workflows/a.yml",
      ".github/dependabot.yml",
      "src/lib.rs",
      "docs/../x",
      ".github/gpu-gate.yml",
    ),
    fc
      .tuple(fc.constantFrom("docs/", "scripts/ci/", "src/", ""), fc.string({ minLength: 1, maxLength: 8 }))
      .map(([folder, name]) => folder + name),
  );
  const paths = fc.array(path, { maxLength: 8 });
  const ofText = (raw: readonly string[]): Classification => classified(pathsFromText(raw).map(plainFile));

  test("order, repeats and one leading ./ never change the answer", () => {
    fc.assert(
      fc.property(paths, fc.array(fc.nat(), { minLength: 1, maxLength: 8 }), (list, picks) => {
        const trimmed = pathsFromText(list).filter((entry) => entry !== "" && !entry.startsWith("./"));
        const repeated = picks.flatMap((pick) =>
          trimmed.length === 0 ? [] : [`./${trimmed[pick % trimmed.length] ?? ""}`],
        );
        expect(ofText([...repeated, ...trimmed.toReversed()])).toEqual(ofText(trimmed));
      }),
    );
  });

  test("adding a path never turns a lane off", () => {
    fc.assert(
      fc.property(fc.array(path, { minLength: 1, maxLength: 8 }), paths, (list, more) => {
        const before = classified(files(...list)).lanes;
        const after = classified(files(...list, ...more)).lanes;
        const lost = Object.keys(before).filter((lane) => before[lane] === true && after[lane] !== true);
        expect(lost).toEqual([]);
      }),
    );
  });

  test("an unknown path always means everything", () => {
    fc.assert(
      fc.property(paths, fc.string({ minLength: 1 }), (list, name) => {
        expect(line(classified(files(...list, `unknown/${name}`)))).toBe(FULL);
      }),
    );
  });

  test("the indexed answer is the answer of comparing with every entry", () => {
    fc.assert(
      fc.property(path, (one) => {
        const { docs, ci } = config.paths;
        const isDocs =
          docs.files.includes(one) ||
          (docs.prefixes.some((entry) => one.startsWith(entry)) &&
            !docs.except_prefixes.some((entry) => one.startsWith(entry)));
        const isCi = ci.files.includes(one) || ci.prefixes.some((entry) => one.startsWith(entry));
        const found = policy.index.look(one);
        expect({ docs: found.docs !== null, ci: found.ci !== null }).toEqual({ docs: isDocs, ci: isCi });
      }),
    );
  });
});
