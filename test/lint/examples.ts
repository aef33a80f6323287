/** The example files of the linter: their text, the configuration they ask for and what they expect. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { DEFAULT_LINT_CONFIG, type LintConfig } from "../../shared/lint/rule.ts";

export interface Example {
  readonly name: string;
  /** The rule the file is about: its name up to the first dot. */
  readonly rule: string;
  readonly text: string;
  readonly config: LintConfig;
  /** `line rule` for every marker, sorted. */
  readonly expected: readonly string[];
}

const configSchema = z
  .strictObject({
    requiredChecks: z.array(z.string()),
    mergeQueue: z.boolean(),
    lanes: z.array(z.strictObject({ name: z.string(), runsOn: z.array(z.string()), checks: z.array(z.string()) })),
  })
  .partial();

export function readExamples(folder: "bad" | "good"): readonly Example[] {
  const root = join(import.meta.dirname, folder);
  return readdirSync(root)
    .filter((name) => name.endsWith(".yml"))
    .map((name) => {
      const text = readFileSync(join(root, name), "utf8");
      const written = /^# lint-config: (.*)$/m.exec(text)?.[1];
      const asked = configSchema.parse(JSON.parse(written ?? "{}"));
      const config: LintConfig = {
        ...DEFAULT_LINT_CONFIG,
        requiredChecks: asked.requiredChecks ?? [],
        mergeQueue: asked.mergeQueue ?? false,
        lanes: asked.lanes ?? [],
      };
      return { name, rule: name.split(".")[0] ?? "", text, config, expected: markersIn(text) };
    });
}

function markersIn(text: string): readonly string[] {
  return text
    .split("\n")
    .flatMap((line, index) => {
      const rules = /[#;] expect: ([a-z, -]+)$/.exec(line)?.[1] ?? "";
      return rules === "" ? [] : rules.split(", ").map((rule) => `${index + 1} ${rule}`);
    })
    .sort();
}
