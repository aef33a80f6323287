/** What is published from the schema is current, and the shipped files load. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { configJsonSchema } from "../../shared/config/json-schema.ts";
import { configFrom, parseRepositoryConfig } from "../../shared/config/load.ts";
import { configReference } from "../../shared/config/reference.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const text = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const SHIPPED = ["workflows/gpu-gate.yml.example", "workflows/gpu-gate.tenferro.yml"];
const CONFIG_FACTS = resolve(ROOT, "../shared/examples/change-policy.config.json");

describe("the JSON Schema for editors", () => {
  test("docs/gpu-gate.schema.json is what `gpu-gate config schema` prints", () => {
    expect(JSON.parse(text("docs/gpu-gate.schema.json"))).toEqual(JSON.parse(JSON.stringify(configJsonSchema())));
  });

  test("it accepts the shipped files and refuses an unknown key", () => {
    const ajv = new Ajv2020({ strict: false });
    addFormats.default(ajv);
    const validate = ajv.compile(configJsonSchema());
    for (const file of SHIPPED) expect({ file, valid: validate(parse(text(file))) }).toEqual({ file, valid: true });
    expect(validate({ version: 1, bugdet: {} })).toBe(false);
    expect(validate({ version: 1, gpu: { price_ceiling_usd_per_hour: 2 } })).toBe(false);
  });

  test("every key has a description", () => {
    expect(
      configReference()
        .split("\n")
        .filter((line) => /\|\s*\|$/.test(line)),
    ).toEqual([]);
  });
});

describe("the reference page", () => {
  test("docs/configuration.md holds the current table", () => {
    const page = text("docs/configuration.md");
    const table = page.split("<!-- reference:begin -->\n")[1]?.split("<!-- reference:end -->")[0];
    expect(table).toBe(configReference());
  });
});

describe("the shipped files", () => {
  test.each(SHIPPED)("%s loads without a problem", (file) => {
    const config = parseRepositoryConfig(text(file));
    expect(config.ok ? [] : config.error).toEqual([]);
  });

  test.each(SHIPPED)("%s tells editors where the schema is", (file) => {
    const first = text(file).split("\n")[0] ?? "";
    const path = /^# yaml-language-server: \$schema=(\S+)$/.exec(first)?.[1] ?? "";
    expect(existsSync(resolve(ROOT, "workflows", path))).toBe(true);
  });

  test("the commented example states the defaults it claims to state", () => {
    const config = parseRepositoryConfig(text("workflows/gpu-gate.yml.example"));
    if (!config.ok) throw new Error("see above");
    const defaults = configFrom();
    for (const key of [
      "start",
      "drafts",
      "quiet_period",
      "shadow",
      "access",
      "workflows",
      "pre_gate",
      "budget",
      "evidence",
      "limits",
    ] as const) {
      expect({ [key]: config.value[key] }).toEqual({ [key]: defaults[key] });
    }
  });

  test("the tenferro file has exactly the reviewed path sets", (context) => {
    if (!existsSync(CONFIG_FACTS)) context.skip("the reviewed path sets (../shared/examples) are not here");
    const facts = (JSON.parse(readFileSync(CONFIG_FACTS, "utf8")) as { seedSplit: Record<string, string[]> }).seedSplit;
    const config = parseRepositoryConfig(text("workflows/gpu-gate.tenferro.yml"));
    if (!config.ok) throw new Error("see above");
    const { paths, lanes } = config.value;
    expect({
      docsFiles: paths.docs.files,
      docsPrefixes: paths.docs.prefixes,
      docsExceptPrefixes: paths.docs.except_prefixes,
      ciFiles: paths.ci.files,
      ciPrefixes: paths.ci.prefixes,
      macosControlFiles: lanes["macos"]?.control.files,
      gpuDeviceControlFiles: lanes.gpu.control.files,
      gpuHostedOnlyFiles: lanes.gpu.hosted_only.files,
    }).toMatchObject(Object.fromEntries(Object.entries(facts).filter(([, value]) => Array.isArray(value))));
  });
});
