/** The hash that reuse and revalidation compare. */
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { aggregatorRules } from "../../shared/config/aggregator-rules.ts";
import { effectiveConfigHash, sha256Hex, stableJson } from "../../shared/config/hash.ts";
import { configFrom, parseRepositoryConfig } from "../../shared/config/load.ts";

describe("the hash of the effective configuration", () => {
  test("order of keys, comments and written-out defaults do not change it", async () => {
    const texts = [
      "version: 1\nstart: label\nshadow: true\n",
      "# a comment\nshadow: true\nstart: label\nversion: 1\n",
      "version: 1\nstart: label\nshadow: true\nbudget: {per_day: 20, per_run: 3}\n",
    ];
    const hashes = texts.map((text) => {
      const config = parseRepositoryConfig(text);
      if (!config.ok) throw new Error("the file is valid");
      return effectiveConfigHash(config.value);
    });
    expect(new Set(await Promise.all(hashes)).size).toBe(1);
  });

  test("any changed value changes it, the order of tiers included", async () => {
    const [first, second] = [
      { name: "a", gpu_ids: ["NVIDIA L4"] },
      { name: "b", gpu_ids: ["NVIDIA A40"] },
    ];
    const configs = [
      configFrom(),
      configFrom({ shadow: true }),
      configFrom({ gpu: { tiers: [first, second] } }),
      configFrom({ gpu: { tiers: [second, first] } }),
    ];
    expect(new Set(await Promise.all(configs.map(effectiveConfigHash))).size).toBe(4);
  });

  test("is made anew where whoever began it never got it", async () => {
    const config = configFrom({ start: "label" });
    const digest = vi.spyOn(crypto.subtle, "digest").mockReturnValueOnce(new Promise(() => undefined));
    void effectiveConfigHash(config);
    expect(await effectiveConfigHash(config)).toBe(await effectiveConfigHash(configFrom({ start: "label" })));
    digest.mockRestore();
  });

  test("SHA-256 is the standard one", async () => {
    expect(await sha256Hex("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  test("stable JSON reads back as the same value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(stableJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test("what JSON cannot hold is refused instead of lost", () => {
    expect(() => stableJson({ a: Number.NaN })).toThrow("no stable JSON form");
    expect(() => stableJson(() => 1)).toThrow("no stable JSON form");
  });
});

describe("the aggregator's rules", () => {
  test("come from the required checks and the lanes that own some of them", () => {
    const config = configFrom({
      required_checks: [
        { name: "Docs" },
        { name: "Coverage Gate", report: "must", app_id: "15368" },
        { name: "Ubuntu gcc", report: "must-on-release" },
        { name: "Coverage GPU", waits_for: ["Build"] },
      ],
      lanes: {
        full: { own: { runs_on: ["gpu-full"], switch: "GPU_ON", probe: "Probe" }, checks: ["Coverage GPU"] },
        hosted: { checks: ["Docs"] },
      },
      aggregator: { release_prefix: "release/" },
    });
    expect(aggregatorRules(config)).toEqual({
      required: ["Docs", "Coverage Gate", "Ubuntu gcc", "Coverage GPU"],
      strict: ["Coverage Gate"],
      lanes: { "Coverage GPU": "GPU_ON" },
      waitsFor: { "Coverage GPU": ["Build", "Probe"] },
      releaseMustReport: ["Ubuntu gcc"],
      releaseHeadPrefix: "release/",
      producers: { "Coverage Gate": "15368" },
    });
  });
});
