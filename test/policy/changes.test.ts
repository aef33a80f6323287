/** From GitHub's and git's words to changed files: what cannot be seen clearly is never plain. */
import { describe, expect, test } from "vitest";
import { fromListedFile, fromRawEntry, listProblem, type ListedFile } from "../../shared/policy/changes.ts";

const LISTED: ListedFile = {
  filename: "docs/a.md",
  status: "modified",
  changes: 2,
  patch: "@@ -1,2 +1,2 @@\n-a\n+b\n c",
};
const special = (change: Partial<ListedFile>): string | null => fromListedFile({ ...LISTED, ...change }).special;

describe("an entry of GitHub's list", () => {
  test("is plain when it shows a change of lines", () => {
    expect(fromListedFile(LISTED)).toEqual({ path: "docs/a.md", previousPath: null, special: null });
  });

  test("keeps the old name of a rename", () => {
    const renamed = fromListedFile({
      filename: "docs/k.md",
      previous_filename: "src/k.cu",
      status: "renamed",
      changes: 0,
    });
    expect(renamed).toEqual({ path: "docs/k.md", previousPath: "src/k.cu", special: null });
  });

  test.each([
    ["a status without a change of content", { status: "changed", changes: 0 }, "mode-only"],
    ["a status nobody knows", { status: "teleported" }, "unknown-status"],
    [
      "a submodule moved",
      { changes: 2, patch: `@@ -1 +1 @@\n-Subproject commit ${"a".repeat(40)}\n+Subproject commit ${"b".repeat(40)}` },
      "submodule",
    ],
    [
      "a link added",
      { status: "added", changes: 1, patch: "@@ -0,0 +1 @@\n+../src\n\\ No newline at end of file" },
      "symlink",
    ],
    [
      "a link retargeted",
      { changes: 2, patch: "@@ -1 +1 @@\n-../a\n\\ No newline at end of file\n+../b\n\\ No newline at end of file" },
      "symlink",
    ],
    ["nothing visible changed", { changes: 0, patch: null }, "no-visible-change"],
    ["an empty file added", { status: "added", changes: 0, patch: null }, null],
    ["one line, properly ended", { status: "added", changes: 1, patch: "@@ -0,0 +1 @@\n+hello" }, null],
    [
      "a last line without its end",
      { changes: 1, patch: "@@ -1,3 +1,3 @@\n a\n b\n-c\n+d\n\\ No newline at end of file" },
      null,
    ],
  ] as const)("%s", (_name, change, expected) => {
    expect(special(change)).toBe(expected);
  });
});

describe("the list as a whole", () => {
  test.each([
    [5, 5, null],
    [4, 5, { kind: "count-mismatch", received: 4, declared: 5 }],
    [6, 5, { kind: "count-mismatch", received: 6, declared: 5 }],
    [2999, 2999, null],
    [3000, 3000, { kind: "list-cap", declared: 3000 }],
    [3000, 3001, { kind: "list-cap", declared: 3001 }],
    [0, 0, null],
  ])("%d received of %d declared", (received, declared, expected) => {
    expect(listProblem(received, declared)).toEqual(expected);
  });
});

describe("an entry of git's raw format", () => {
  const RAW = { oldMode: "100644", newMode: "100644", status: "M", path: "docs/a" };

  test.each([
    [{}, null],
    [{ oldMode: "000000", status: "A" }, null],
    [{ newMode: "000000", status: "D" }, null],
    [{ newMode: "100755" }, "mode-only"],
    [{ oldMode: "000000", newMode: "120000", status: "A" }, "symlink"],
    [{ oldMode: "120000", newMode: "100644", status: "T" }, "symlink"],
    [{ oldMode: "160000", newMode: "160000" }, "submodule"],
    [{ oldMode: "160000", newMode: "000000", status: "D" }, "submodule"],
    [{ status: "U" }, "unknown-status"],
  ])("%j", (change, expected) => {
    expect(fromRawEntry({ ...RAW, ...change }).special).toBe(expected);
  });
});
