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
    expect(told({ gpu: limited, budget: { per_run: 0.5 } }).map(([about]) => about)).toEqual(["retention.duration"]);
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
  it("the defaults rent too dear a GPU for an hour of keeping, and say so", () => {
    const [[key, say] = ["", ""], ...more] = told({});
    expect([key, more]).toEqual(["retention.duration", []]);
    expect(say).toContain(
      "together USD 3.29 for NVIDIA A100-SXM4-80GB at its reviewed price, and `budget.per_run` is 3",
    );
    expect(say).toContain("Write 3.30 or more there, ask for 48 minutes or fewer");
  });

  it("what was advised is granted", () => {
    expect(told({ budget: { per_run: 3.52 } })).toEqual([]);
    const tiers = [{ name: "premium", gpu_ids: ["NVIDIA L40S"], max_usd_per_hour: 1.2 }];
    expect(told({ gpu: { tiers } })).toEqual([]);
  });
});
