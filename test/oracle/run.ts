/**
 * Runs example corpora against the product: each known file through its adapter, each difference on purpose through a
 * rule of overrules.json. Gives the outcome of every case; printing and exit codes are `main.ts`.
 */
import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import type { Corpus, CorpusAdapter, CorpusCase, Outcome } from "./adapter.ts";

/** A file of cases; one without a list of cases (a configuration that cases refer to) is no corpus. */
const corpusSchema = z.looseObject({ cases: z.array(z.looseObject({ id: z.string() })) });
const overrulesSchema = z.strictObject({
  about: z.string(),
  rules: z.array(z.strictObject({ id: z.string(), reason: z.string().min(20) })),
});

export interface CaseResult {
  readonly corpus: string;
  readonly id: string;
  readonly pass: boolean;
  readonly expected: unknown;
  readonly actual: unknown;
  readonly overruledBy: string | null;
}

export interface OracleReport {
  readonly results: readonly CaseResult[];
  /** Corpus files for which there is no adapter, by file name. */
  readonly unknown: readonly string[];
  /** Files that hold no cases of their own (a case's configuration). */
  readonly companions: readonly string[];
  /** Files that cannot be read as a corpus, with the reason; each is a failure. */
  readonly broken: readonly { readonly file: string; readonly reason: string }[];
}

export type OverruleReasons = ReadonlyMap<string, string>;

export async function loadAdapters(folder: string): Promise<CorpusAdapter[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith(".ts")).sort();
  const adapters: CorpusAdapter[] = [];
  for (const file of files) {
    const module = (await import(join(folder, file))) as { adapter?: CorpusAdapter };
    if (module.adapter === undefined) throw new Error(`${file} exports no adapter`);
    adapters.push(module.adapter);
  }
  return adapters;
}

export async function loadOverrules(file: string): Promise<OverruleReasons> {
  const { rules } = overrulesSchema.parse(JSON.parse(await readFile(file, "utf8")));
  const reasons = new Map(rules.map(({ id, reason }) => [id, reason]));
  if (reasons.size !== rules.length) throw new Error("two overrules have the same id");
  return reasons;
}

/** Every `*.json` of the folder. Rejects when the folder cannot be read. */
export async function runOracle(
  folder: string,
  adapters: readonly CorpusAdapter[],
  overrules: OverruleReasons,
): Promise<OracleReport> {
  const files = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  const results: CaseResult[] = [];
  const unknown: string[] = [];
  const companions: string[] = [];
  const broken: { file: string; reason: string }[] = [];
  for (const file of files) {
    const read = await readCorpus(join(folder, file));
    if (read.kind === "broken") broken.push({ file, reason: read.reason });
    else if (read.kind === "companion") companions.push(file);
    else {
      const adapter = adapters.find((candidate) => candidate.corpus === basename(file, ".json"));
      if (adapter === undefined) unknown.push(file);
      else
        for (const testCase of read.corpus.cases)
          results.push(await runCase(adapter, testCase, read.corpus, folder, overrules));
    }
  }
  return { results, unknown, companions, broken };
}

type ReadCorpus =
  | { readonly kind: "corpus"; readonly corpus: Corpus }
  | { readonly kind: "companion" }
  | { readonly kind: "broken"; readonly reason: string };

async function readCorpus(path: string): Promise<ReadCorpus> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    return { kind: "broken", reason: error instanceof Error ? error.message : String(error) };
  }
  if (typeof value === "object" && value !== null && !("cases" in value)) return { kind: "companion" };
  const parsed = corpusSchema.safeParse(value);
  if (!parsed.success) return { kind: "broken", reason: "`cases` is not a list of cases with an id" };
  return { kind: "corpus", corpus: parsed.data };
}

async function runCase(
  adapter: CorpusAdapter,
  testCase: CorpusCase,
  corpus: Corpus,
  folder: string,
  overrules: OverruleReasons,
): Promise<CaseResult> {
  const base = { corpus: adapter.corpus, id: testCase.id };
  let outcome: Outcome;
  try {
    outcome = await adapter.run(testCase, corpus, folder);
  } catch (error) {
    const actual = `threw: ${error instanceof Error ? error.message : String(error)}`;
    return { ...base, pass: false, expected: testCase["expected"], actual, overruledBy: null };
  }
  const overruledBy = outcome.overruledBy ?? null;
  if (overruledBy !== null && !overrules.has(overruledBy)) {
    return { ...base, pass: false, expected: "a rule of overrules.json", actual: overruledBy, overruledBy: null };
  }
  return { ...base, pass: outcome.pass, expected: outcome.expected, actual: outcome.actual, overruledBy };
}

/** An outcome by plain comparison, for adapters that need no more. */
export function equalOutcome(expected: unknown, actual: unknown): Outcome {
  return { pass: isDeepStrictEqual(expected, actual), expected, actual };
}

/** The report as people and CI read it; ends with `N passed, M failed`. */
export function reportText(report: OracleReport, overrules: OverruleReasons): string {
  const lines: string[] = [];
  for (const failure of report.results.filter((result) => !result.pass)) {
    lines.push(`FAILED ${failure.corpus} ${failure.id}`);
    lines.push(`  expected ${JSON.stringify(failure.expected)}`, `  actual   ${JSON.stringify(failure.actual)}`);
  }
  for (const { file, reason } of report.broken) lines.push(`FAILED ${file}: unreadable: ${reason}`);
  for (const [corpus, results] of Map.groupBy(report.results, (result) => result.corpus)) {
    const passed = results.filter((result) => result.pass).length;
    lines.push(`${corpus}: ${passed} of ${results.length}`);
  }
  for (const file of report.unknown) lines.push(`unknown ${file}: there is no adapter for it, its cases were not run`);
  const overruled = report.results.filter((result) => result.overruledBy !== null);
  for (const [rule, results] of Map.groupBy(overruled, (result) => result.overruledBy ?? "")) {
    const ids = results.map((result) => result.id).join(", ");
    lines.push(`overruled ${results.length} by ${rule}: ${overrules.get(rule) ?? ""} (${ids})`);
  }
  const passed = report.results.filter((result) => result.pass).length;
  lines.push(`${passed} passed, ${failures(report)} failed`);
  return `${lines.join("\n")}\n`;
}

export function failures(report: OracleReport): number {
  return report.results.filter((result) => !result.pass).length + report.broken.length;
}
