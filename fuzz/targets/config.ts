/** The repository's configuration: text in, a configuration or problems that a person can fix out, in bounded time. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { CONFIG } from "../../local/world/opening-day.ts";
import { effectiveConfigHash, stableJson } from "../../shared/config/hash.ts";
import { parseRepositoryConfig, problemText, type ConfigProblem } from "../../shared/config/load.ts";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { classify } from "../../shared/policy/classify.ts";
import type { Result } from "../../shared/result.ts";
import { byteChange, damagedBytes, type ByteChange } from "../bytes.ts";
import { target } from "../target.ts";
import { damagedYaml, yamlChange, type YamlChange } from "../yaml.ts";

export interface ConfigCase {
  readonly base: number;
  readonly yaml: readonly YamlChange[];
  readonly bytes: readonly ByteChange[];
}

/** Every example of the documentation, and the local world's own. */
const bases: readonly string[] = [
  CONFIG,
  "version: 1\n",
  ...documented("docs/configuration.md"),
  ...documented("docs/lanes.md"),
];

function documented(page: string): readonly string[] {
  const file = join(import.meta.dirname, "..", "..", page);
  if (!existsSync(file)) return [];
  return [...readFileSync(file, "utf8").matchAll(/^```ya?ml\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}

type Load = (text: string) => Result<RepositoryConfig, ConfigProblem[]>;

export const config = target<ConfigCase>({
  name: "config",
  about: "the configuration file, as YAML people and attackers write",
  share: 20,
  sample: 15,
  cases: fc.record({
    base: fc.nat(bases.length - 1),
    yaml: fc.array(yamlChange, { maxLength: 5 }),
    bytes: fc.oneof(
      { weight: 5, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(byteChange, { minLength: 1, maxLength: 3 }) },
    ),
  }),
  open: async () => openConfig(parseRepositoryConfig),
});

/** `load`: the loader. A test hands in a faulty one. */
export function openConfig(load: Load) {
  return {
    async judge(given: ConfigCase): Promise<string | null> {
      const written = damagedYaml(bases[given.base % bases.length] ?? "", given.yaml);
      const text =
        given.bytes.length === 0
          ? written
          : Buffer.from(damagedBytes(Buffer.from(written), given.bytes)).toString("utf8");
      const first = load(text);
      const second = load(text);
      if (first.ok !== second.ok) return "loaded twice, accepted once";
      if (!first.ok) {
        if (!second.ok && JSON.stringify(first.error) !== JSON.stringify(second.error))
          return "two loads, two lists of problems";
        return problemsWrong(first.error, text);
      }
      return second.ok ? acceptedWrong(first.value, second.value, load) : null;
    },
    close: async () => undefined,
  };
}

function problemsWrong(problems: readonly ConfigProblem[], text: string): string | null {
  if (problems.length === 0) return "refused without a problem";
  if (problems.length > 50) return `${problems.length} problems at once`;
  const lines = text.split("\n").length;
  for (const problem of problems) {
    const shown = JSON.stringify(problem).slice(0, 400);
    const { line, column, message, fix } = problem;
    if (!Number.isInteger(line) || line < 1 || line > lines + 1) return `a problem at no line of the file: ${shown}`;
    if (!Number.isInteger(column) || column < 1) return `a problem at no column: ${shown}`;
    if (message.trim() === "" || fix.trim() === "") return `a problem without what is wrong or what to do: ${shown}`;
    const told = problemText(problem, "gpu-gate.yml");
    if (told.length > 2_000) return `a problem told in ${told.length} characters: ${shown}`;
    // oxlint-disable-next-line no-control-regex
    if (/[\n\r\u0000\u2028]/.test(told)) return `a problem that breaks its line: ${shown}`;
    if (/\[object |undefined|\bNaN\b|Symbol\(|call stack/.test(told) && !/undefined|NaN|object/.test(text))
      return `a problem in a machine's words: ${shown}`;
    if (/\bat \S+ \(|\.ts:\d/.test(told)) return `a problem that shows a stack: ${shown}`;
  }
  return null;
}

const PATHS = ["docs/a.md", "src/x.rs", "a/".repeat(500) + "b", "__proto__", "constructor/x", "(a+)+$/x"];

async function acceptedWrong(one: RepositoryConfig, other: RepositoryConfig, load: Load): Promise<string | null> {
  const hash = await effectiveConfigHash(one);
  if (hash !== (await effectiveConfigHash(other))) return "loaded twice, two hashes";
  // JSON is YAML: what was accepted, written out in full, must be accepted again and be the same.
  const again = load(stableJson(one));
  if (!again.ok) return `accepted, and refused when written out in full: ${JSON.stringify(again.error[0])}`;
  if ((await effectiveConfigHash(again.value)) !== hash)
    return "accepted, and another configuration when written out in full";
  if (Object.getPrototypeOf(one.lanes) !== Object.prototype) return "the lanes have another prototype";
  const files = PATHS.map((path) => ({ path, previousPath: null, special: null }));
  const classified = classify(one, { event: "pull_request", files, problem: null });
  if (typeof classified !== "object") return "an accepted configuration does not classify";
  return null;
}
