/** What `config check` and `doctor` say of a valid configuration. */
import { describe, expect, it } from "vitest";
import { configFrom } from "../../shared/config/load.ts";
import { configNotes } from "../../shared/config/notes.ts";
import type { RepositoryConfigInput } from "../../shared/config/schema.ts";

/** Key and text of each note about money. */
function told(input: Partial<RepositoryConfigInput>): readonly (readonly [string, string])[] {
  const all = configNotes(configFrom(input));
  return all.filter(({ key }) => !key.startsWith("gpu.")).map(({ key, say }) => [key, say]);
}

const CHEAP = { tiers: [{ name: "cheap", gpu_ids: ["NVIDIA RTX A4000", "NVIDIA RTX A5000"] }] };

describe("a cap below what is reserved", () => {
  it("is told for sure where a reviewed price decides", () => {
    const [[key, say] = ["", ""], ...more] = told({ budget: { per_run: 1.5 } });
    expect([key, more]).toEqual(["budget.per_run", []]);
    expect(say).toContain("USD 1.79 for NVIDIA A100-SXM4-80GB at its reviewed price (USD 1.50 an hour)");
    expect(say).toContain("`budget.per_run` is 1.5. While that GPU is for rent every run ends over-budget");
    expect(say).toContain("Write 1.80 or more");
    const [[, possible] = ["", ""]] = told({ budget: { per_run: 1.8 } });
    expect(possible).toContain("or its price is not known");
  });

  it("is told as possible where only the limit is known, with the price that fits", () => {
    const [[key, say] = ["", ""]] = told({ gpu: CHEAP, budget: { per_run: 0.5 } });
    expect(key).toBe("budget.per_run");
    expect(say).toContain("USD 1.92 for a GPU of tier `cheap` at its limit (USD 1.60 an hour)");
    expect(say).toContain("costs more than USD 0.41 an hour");
    expect(say).toContain("`gpu.price_ceiling_usd_per_hour: 0.41`");
    const limited = { ...CHEAP, price_ceiling_usd_per_hour: 0.41 };
    expect(told({ gpu: limited, budget: { per_run: 0.5 } })).toEqual([]);
  });

  it("is told of whichever cap is met first", () => {
    expect(told({ budget: { per_run: 1, per_author: 0.2 } }).map(([key]) => key)).toEqual(["budget.per_author"]);
    expect(told({ budget: { per_day: 0 } })).toEqual([["budget.per_day", "It is 0: no GPU is ever rented."]]);
  });

  it("counts a GPU above its tier's limit for nothing: it is never in a plan", () => {
    const tiers = [{ name: "a100", gpu_ids: ["NVIDIA A100-SXM4-80GB"], max_usd_per_hour: 0.5 }];
    expect(told({ gpu: { tiers }, budget: { per_run: 2 } })).toEqual([]);
  });
});

describe("the proof without a kernel", () => {
  const file = { url: "https://files.example/nvrtc.whl", sha256: "0".repeat(64) };
  const keys = (gpu: RepositoryConfigInput["gpu"]) => configNotes(configFrom({ gpu })).map(({ key }) => key);

  it("is told while no NVRTC is named", () => {
    expect(keys({})).toContain("gpu.nvrtc");
    expect(keys({ nvrtc: { "12.6": file, "12.8": file } })).not.toContain("gpu.nvrtc");
  });
});

describe("an aggregator over checks that may all be absent", () => {
  const keys = (
    report: "may-skip" | "must" | "must-on-release",
    name = "Unit tests",
    aggregator: string | null = "All",
  ) =>
    configNotes(configFrom({ required_checks: [{ name: "Docs" }, { name, report }], aggregator: { name: aggregator } }))
      .map(({ key }) => key)
      .filter((key) => key === "required_checks");

  it("is told, because it is green where no workflow has started", () => {
    expect(keys("may-skip")).toEqual(["required_checks"]);
    expect(keys("must-on-release")).toEqual(["required_checks"]);
    expect(keys("must", "CI GPU gate")).toEqual(["required_checks"]);
    expect(keys("must")).toEqual([]);
    expect(keys("may-skip", "Unit tests", null)).toEqual([]);
  });
});

describe("a keeping that cannot be granted", () => {
  it("with the other defaults an hour of keeping is too dear, which is told where every failure is kept", () => {
    expect(told({})).toEqual([]);
    const [[key, say] = ["", ""], ...more] = told({ retention: { keep_on_failure: true } });
    expect([key, more]).toEqual(["retention.duration", []]);
    expect(say).toContain(
      "together USD 3.29 for NVIDIA A100-SXM4-80GB at its reviewed price, and `budget.per_run` is 3",
    );
    expect(say).toContain("Write 3.30 or more there, ask for 48 minutes or fewer");
  });

  it("what was advised is granted", () => {
    const retention = { keep_on_failure: true };
    expect(told({ budget: { per_run: 3.52 }, retention })).toEqual([]);
    const tiers = [{ name: "premium", gpu_ids: ["NVIDIA L40S"], max_usd_per_hour: 1.2 }];
    expect(told({ gpu: { tiers }, retention })).toEqual([]);
  });
});

describe("caps that contradict each other", () => {
  it("are told, the one that never counts first", () => {
    expect(told({ budget: { per_run: 30, per_day: 20 } })).toEqual([
      ["budget.per_run", "It is 30, and `budget.per_day` is 20: that one is met first, so this one never counts."],
    ]);
    expect(told({ budget: { per_day: 300, per_month: 200 } }).map(([key]) => key)).toEqual(["budget.per_day"]);
    expect(told({ budget: { per_run: 5, per_day: 5, per_month: 5 } })).toEqual([]);
  });
});

describe("a path that looks like a pattern", () => {
  it("is told wherever paths are compared letter by letter", () => {
    const notes = told({
      paths: { docs: { files: ["*.md", "docs/**", "README.md"] }, ci: { prefixes: ["ci/*/", "ci/"] } },
      lanes: { gpu: { control: { files: ["ci/?.sh"] } } },
    });
    expect(notes.map(([key]) => key)).toEqual(["paths.docs.files", "paths.ci.prefixes", "lanes.gpu.control.files"]);
    expect(notes[0]?.[1]).toContain("`*.md` is taken letter by letter");
    expect(notes[0]?.[1]).toContain("1 more like it.");
  });

  it("is none with brackets, which many names have, nor where patterns are meant", () => {
    expect(told({ paths: { docs: { files: ["app/[id].mdx"] } }, archive_key: { include: ["src/**"] } })).toEqual([]);
  });
});

describe("a GPU that this version does not know", () => {
  const ids = (...gpuIds: string[]) =>
    configNotes(configFrom({ gpu: { tiers: [{ name: "one", gpu_ids: gpuIds }] } })).filter(({ key }) =>
      key.startsWith("gpu.tiers"),
    );

  it.each([
    ["RTX 4090", "NVIDIA GeForce RTX 4090"],
    ["rtx4090", "NVIDIA GeForce RTX 4090"],
    ["NVIDIA RTX A40000", "NVIDIA RTX A4000"],
  ])("is told with the nearest one: %s", (id, nearest) => {
    expect(ids(id)).toMatchObject([
      { key: "gpu.tiers.0.gpu_ids", say: expect.stringContaining(`Did you mean \`${nearest}\`?`) },
    ]);
  });

  it("is told without one where none is near, and a known one is not told", () => {
    const [note, ...more] = ids("NVIDIA GeForce GTX 1080 Ti Special", "NVIDIA L4");
    expect(more).toEqual([]);
    expect(note?.say).not.toContain("Did you mean");
  });
});
