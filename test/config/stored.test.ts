/** I12: a configuration that an older version stored still loads, although a file that says so is refused today. */
import { expect, it } from "vitest";
import { configFrom, parseRepositoryConfig } from "../../shared/config/load.ts";
import { storedConfig } from "../../shared/config/stored.ts";

/** What was stored: every key, as JSON. */
const stored = (change: (config: Record<string, Record<string, unknown>>) => void): unknown => {
  const config = JSON.parse(JSON.stringify(configFrom())) as Record<string, Record<string, unknown>>;
  change(config);
  return config;
};

it("today's configuration is what it was", () => {
  expect(storedConfig(stored(() => undefined))).toEqual(configFrom());
});

it("a number of GPUs that was never honoured reads as the one that was", () => {
  const two = stored((config) => Object.assign(config["gpu"] ?? {}, { count: 2 }));
  expect(storedConfig(two)).toEqual(configFrom());
  expect(parseRepositoryConfig("version: 1\ngpu: {count: 2}\n").ok).toBe(false);
});

it("a keeping longer than the reaper spares reads as what was spared", () => {
  const long = stored((config) =>
    Object.assign(config["retention"] ?? {}, { duration: 20_000, max_retention: 43_200 }),
  );
  expect(storedConfig(long)?.retention).toEqual({ keep_on_failure: false, duration: 10_800, max_retention: 10_800 });
});

it("keys that nothing read are left out", () => {
  const old = stored((config) => {
    Object.assign(config["limits"] ?? {}, { owner_grace: 300 });
    Object.assign(config["runner"] ?? {}, { label_prefix: "gpu-gate", run_as: "root" });
  });
  expect(storedConfig(old)).toEqual(configFrom());
});

it.each([null, "text", [], {}, { version: 2 }, { version: 1, gpu: null }, { version: 1, colour: "blue" }])(
  "what no version wrote is no configuration: %j",
  (value) => {
    expect(storedConfig(value)).toBeNull();
  },
);
