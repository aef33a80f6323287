import { describe, expect, test } from "vitest";
import { guessFormat, readInventory, type InventoryFormat } from "../../shared/hosted/inventory.ts";
import {
  checkPartition,
  nextestFilter,
  readPartition,
  reportPartition,
  type Inventory,
} from "../../shared/hosted/partition.ts";
import { fill, temporaryFolder } from "./folder.ts";
import { gpuGate } from "./io.ts";

const TABLE = [
  "# lane\tbinary\ttest",
  "host\ttensor\tshape::tests::broadcasts",
  "",
  "gpu\ttensor\tdevice::tests::multiplies",
  "gpu\ttensor::kernels\tgemm::f32",
  "two-gpu\ttensor::kernels\tring::all_reduce",
  "benchmark\ttensor::bench/speed\tgemm_4096",
].join("\n");

/** The shape of `cargo nextest list --message-format json`, with the fields that a reader must pass over. */
function nextestList(suites: Readonly<Record<string, readonly string[]>>, count?: number): string {
  const total = Object.values(suites).flat().length;
  return JSON.stringify({
    "rust-build-meta": { "target-directory": "/build/target", "base-output-directories": ["debug"], platforms: {} },
    "test-count": count ?? total,
    "rust-suites": Object.fromEntries(
      Object.entries(suites).map(([binaryId, tests]) => [
        binaryId,
        {
          "package-name": binaryId.split("::")[0],
          "binary-id": binaryId,
          "binary-name": "x",
          "package-id": "path+file:///src/tensor#0.1.0",
          kind: "lib",
          "binary-path": "/build/target/debug/deps/tensor-1",
          "build-platform": "target",
          cwd: "/src/tensor",
          status: "listed",
          testcases: Object.fromEntries(
            tests.map((name) => [name, { kind: "test", ignored: false, "filter-match": { status: "matches" } }]),
          ),
        },
      ]),
    ),
  });
}

const SUITES = {
  tensor: ["shape::tests::broadcasts", "device::tests::multiplies"],
  "tensor::kernels": ["gemm::f32", "ring::all_reduce"],
  "tensor::bench/speed": ["gemm_4096"],
};

function rows(table: string = TABLE) {
  const read = readPartition(table);
  if (!read.ok) throw new Error(read.error.problem);
  return read.value;
}

function inventory(text: string, format: InventoryFormat = guessFormat(text)): Inventory {
  const read = readInventory(format, text);
  if (!read.ok) throw new Error(read.error.problem);
  return read.value;
}

describe("reading the table", () => {
  test.each([
    ["a missing column", "host\ttensor", 1],
    ["a fourth column", "host\ttensor\tname\tnote", 1],
    ["spaces instead of tabs", "host tensor name", 1],
    ["a lane in the wrong case", "# ok\nGPU\ttensor\tname", 2],
    ["an unknown lane", "tpu\ttensor\tname", 1],
    ["an empty test name", "host\ttensor\t", 1],
    ["the same test in two lanes", "host\ttensor\tname\n\ngpu\ttensor\tname", 3],
    ["the same test twice in a lane", "gpu\ttensor\tname\r\ngpu\ttensor\tname", 2],
  ])("refuses %s and says on which line", (_what, table, line) => {
    expect(readPartition(table)).toMatchObject({ ok: false, error: { reason: "bad-row", line } });
  });

  test("the same test name in two binaries is two tests", () => {
    expect(rows("gpu\ta\tname\nhost\tb\tname")).toHaveLength(2);
  });
});

describe("checking against the inventory", () => {
  test("accepts a nextest list that names exactly the table's tests", () => {
    expect(checkPartition(rows(), inventory(nextestList(SUITES)))).toEqual({ ok: true, value: { tests: 5 } });
  });

  test("names every unclassified and every absent test, a rename being one of each", () => {
    const renamed = { ...SUITES, tensor: ["shape::tests::broadcasts", "device::tests::multiplies_v2", "new::one"] };
    expect(checkPartition(rows(), inventory(nextestList(renamed)))).toEqual({
      ok: false,
      error: {
        reason: "mismatch",
        unclassified: [
          { binary: "tensor", test: "device::tests::multiplies_v2" },
          { binary: "tensor", test: "new::one" },
        ],
        absent: [{ binary: "tensor", test: "device::tests::multiplies" }],
      },
    });
  });

  test("a test that moved to another binary is not the same test", () => {
    const checked = checkPartition(rows("gpu\ta\tname"), inventory(nextestList({ b: ["name"] })));
    expect(checked).toMatchObject({ error: { unclassified: [{ binary: "b" }], absent: [{ binary: "a" }] } });
  });

  test.each([4, 6, 0])("refuses a list whose own count (%i) is not the number of its tests", (count) => {
    expect(checkPartition(rows(), inventory(nextestList(SUITES, count)))).toEqual({
      ok: false,
      error: { reason: "count", declared: count, listed: 5 },
    });
  });

  test("an empty table against an empty inventory is not fine", () => {
    expect(checkPartition(rows("# nothing\n"), inventory(nextestList({})))).toMatchObject({
      error: { reason: "empty" },
    });
  });

  test("a list that names a test twice cannot be split into disjoint lanes", () => {
    expect(checkPartition(rows("gpu\t-\ta\nhost\t-\tb"), inventory("a\nb\na\n"))).toEqual({
      ok: false,
      error: { reason: "repeated", repeated: [{ binary: "-", test: "a" }] },
    });
  });
});

describe("other inventories", () => {
  test("JUnit: the class is the binary, else the suite; entities are decoded; comments and CDATA hold no tests", () => {
    const xml = `<?xml version="1.0"?><testsuites><testsuite name="s &amp; t">
      <!-- <testcase name="commented"/> -->
      <testcase classname="pkg.Class" name="test_x[a&lt;b]" time="0.5"/>
      <testcase name="bare"><system-out><![CDATA[<testcase name="printed"/>]]></system-out></testcase>
    </testsuite></testsuites>`;
    expect(inventory(xml).tests).toEqual([
      { binary: "pkg.Class", test: "test_x[a<b]" },
      { binary: "s & t", test: "bare" },
    ]);
  });

  test.each([
    ["cut off in the middle", "<testsuite><testcase name='a'/>"],
    ["with crossed tags", "<testsuite><testcase name='a'></testsuite></testcase>"],
    ["with a document type", "<!DOCTYPE x [<!ENTITY a 'b'>]><testsuite/>"],
    ["that is HTML", "<html></html>"],
    ["with a nameless case", "<testsuite><testcase/></testsuite>"],
  ])("refuses JUnit %s instead of giving a shorter list", (_what, xml) => {
    expect(readInventory("junit", xml).ok).toBe(false);
  });

  test("plain lists have one test a line, with the binary before a tab where there is one", () => {
    expect(inventory("# tests\n\ntests/test_a.py::test_x\nsuite\ttest y\n").tests).toEqual([
      { binary: "-", test: "tests/test_a.py::test_x" },
      { binary: "suite", test: "test y" },
    ]);
  });

  test.each([
    ["JSON of another kind", '{"tests": []}'],
    ["a list of binaries only", '{"test-count": 0, "rust-binaries": {}}'],
    ["half a document", '{"test-count": 1, "rust-su'],
  ])("refuses %s as a nextest list", (_what, text) => {
    expect(readInventory("nextest", text)).toMatchObject({ ok: false });
  });
});

describe("filters", () => {
  test("a lane is the union of its tests, library binaries written with underscores", () => {
    const table = "gpu\tmy-tensor\ta\ngpu\tmy-tensor\tb\ngpu\tmy-tensor::my-kernels\tc\nhost\tother\td";
    expect(nextestFilter(rows(table), "gpu")).toBe(
      "(package(=my-tensor) & binary(=my_tensor) & (test(=a) | test(=b))) | (package(=my-tensor) & binary(=my-kernels) & (test(=c)))",
    );
    expect(nextestFilter(rows(table), "host")).toBe(`not (${nextestFilter(rows(table), "gpu")})`);
  });

  test("the host lane leaves out every other lane, not only gpu", () => {
    for (const name of ["multiplies", "gemm::f32", "all_reduce", "gemm_4096"])
      expect(nextestFilter(rows(), "host")).toContain(name);
  });

  test("a lane without tests selects nothing, and a host lane without others everything", () => {
    expect(nextestFilter(rows("host\ta\tb"), "gpu")).toBe("none()");
    expect(nextestFilter(rows("host\ta\tb"), "host")).toBe("not (none())");
  });

  test("targets with a kind are selected by kind and bare name", () => {
    expect(nextestFilter(rows(), "benchmark")).toBe(
      "(package(=tensor) & binary(=speed) & kind(=bench) & (test(=gemm_4096)))",
    );
  });

  test("a name cannot end its matcher early", () => {
    expect(nextestFilter(rows("gpu\ta\tf(x), g\\h"), "gpu")).toContain(String.raw`test(=f(x\)\, g\\h)`);
  });
});

test("what did not run is listed test by test, and only that", () => {
  const report = reportPartition(rows(), ["gpu"]);
  expect(report.counts).toEqual({ host: 1, gpu: 2, "two-gpu": 1, benchmark: 1 });
  expect(report.notRun.map(({ lane, test: name }) => `${lane} ${name}`)).toEqual([
    "host shape::tests::broadcasts",
    "benchmark gemm_4096",
    "two-gpu ring::all_reduce",
  ]);
});

describe("the command", () => {
  function files(list: string = nextestList(SUITES)) {
    const cwd = fill(temporaryFolder(), { "table.tsv": TABLE, list });
    return { cwd, common: ["--table", "table.tsv", "--inventory", "list"] };
  }

  test("check says how many tests it vouches for", async () => {
    const { cwd, common } = files();
    const answer = await gpuGate(["partition", "check", ...common], { cwd });
    expect(answer).toEqual({ code: 0, out: "The partition is exhaustive and disjoint: 5 tests.\n", err: "" });
  });

  test.each(["check", "filter", "report"])("%s refuses a changed inventory and names what differs", async (action) => {
    const { cwd, common } = files(nextestList({ ...SUITES, fresh: ["case"] }));
    const more = { check: [], filter: ["--lane", "gpu"], report: ["--ran", "gpu"] }[action] ?? [];
    const answer = await gpuGate(["partition", action, ...common, ...more], { cwd });
    expect(answer).toMatchObject({ code: 1, out: "" });
    expect(answer.err).toContain("unclassified: fresh case\n");
  });

  test("filter --as list serves runners other than nextest", async () => {
    const cwd = fill(temporaryFolder(), { t: "gpu\t-\ttest_b\ngpu\t-\ttest_a\nhost\t-\ttest_c\n" });
    const answer = await gpuGate(
      ["partition", "filter", "--table", "t", "--inventory", "-", "--lane", "gpu", "--as", "list"],
      { cwd, stdin: async () => new TextEncoder().encode("test_a\ntest_b\ntest_c\n") },
    );
    expect(answer).toEqual({ code: 0, out: "test_a\ntest_b\n", err: "" });
  });

  test("report prints NOT RUN for lanes that did not run, and never the word pass", async () => {
    const { cwd, common } = files();
    const { code, out } = await gpuGate(["partition", "report", ...common, "--ran", "gpu", "--ran", "host"], { cwd });
    expect(code).toBe(0);
    expect(out).toBe(
      "Partition: host 1, gpu 2, two-gpu 1 (NOT RUN), benchmark 1 (NOT RUN).\n" +
        "NOT RUN (benchmark): tensor::bench/speed gemm_4096\n" +
        "NOT RUN (two-gpu): tensor::kernels ring::all_reduce\n",
    );
  });

  test.each([
    [["partition"], "check, filter or report"],
    [["partition", "filter", "--table", "t", "--inventory", "i"], "--lane"],
    [["partition", "filter", "--lane", "tpu"], "'tpu' is not a lane"],
    [["partition", "report", "--table", "t", "--inventory", "i"], "--ran"],
    [["partition", "check", "--table", "missing.tsv", "--inventory", "i"], "no such file or directory"],
    [["partition", "check", "--tabel", "t"], "--tabel"],
  ])("%j is a wrong call and says what to do", async (args, hint) => {
    const answer = await gpuGate(args, { cwd: temporaryFolder() });
    expect(answer.code).toBe(2);
    expect(answer.err).toContain(hint);
  });
});
