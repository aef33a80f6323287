/** The three ways to show findings: for people, for GitHub's annotations, and SARIF 2.1.0 for code scanning. */
import { onOneLine } from "../text.ts";
import { RULES } from "./lint.ts";
import type { Finding } from "./rule.ts";

/** One line per finding, then one line of explanation for each rule that spoke. */
export function asText(findings: readonly Finding[], files: number): string {
  if (findings.length === 0) return `${files} workflow file${files === 1 ? "" : "s"} checked, nothing found.\n`;
  const lines = findings.map(
    ({ file, line, column, message, rule }) => `${onOneLine(file)}:${line}:${column}: ${message} [${rule}]`,
  );
  const spoke = RULES.filter((rule) => findings.some((finding) => finding.rule === rule.id));
  const fixes = spoke.map((rule) => `${rule.id}: ${rule.fix}`);
  const total = `${findings.length} finding${findings.length === 1 ? "" : "s"} in ${files} file${files === 1 ? "" : "s"}.`;
  return [...lines, "", ...fixes, "", total, ""].join("\n");
}

/** Workflow commands that the runner turns into annotations. */
export function asGithub(findings: readonly Finding[]): string {
  return findings
    .map(({ file, line, column, rule, message }) => {
      const properties = `file=${property(file)},line=${line},col=${column},title=${property(`gpu-gate lint: ${rule}`)}`;
      return `::error ${properties}::${data(message)}\n`;
    })
    .join("");
}

/** A value after `::` must not be able to end its line and start another command. */
function data(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

/** A property ends at a comma or a colon as well. */
function property(text: string): string {
  return data(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}

/** A SARIF 2.1.0 log with every rule, found or not, so that a viewer can show what was checked. */
export function asSarif(findings: readonly Finding[], version: string): object {
  return {
    $schema: "https://json.schemastore.org/sarif-2.1.0.json",
    version: "2.1.0",
    runs: [
      {
        tool: {
          driver: {
            name: "gpu-gate lint",
            semanticVersion: version,
            rules: RULES.map((rule) => ({
              id: rule.id,
              shortDescription: { text: rule.title },
              fullDescription: { text: rule.explanation },
              help: { text: `${rule.explanation}\n\nFor example: ${rule.example}\n\nFix: ${rule.fix}` },
              defaultConfiguration: { level: "error" },
            })),
          },
        },
        columnKind: "utf16CodeUnits",
        results: findings.map((finding) => ({
          ruleId: finding.rule,
          ruleIndex: RULES.findIndex((rule) => rule.id === finding.rule),
          level: "error",
          message: { text: finding.message },
          locations: [
            {
              physicalLocation: {
                artifactLocation: { uri: uriOf(finding.file) },
                region: { startLine: finding.line, startColumn: finding.column },
              },
            },
          ],
        })),
      },
    ],
  };
}

/** A file name as a relative URI: what would begin a query, a fragment or a scheme belongs to the name. */
function uriOf(file: string): string {
  return encodeURI(file).replaceAll(/[?#:]/g, encodeURIComponent);
}

/** `docs/lint-rules.md`, generated so that it cannot fall behind the rules. */
export function asDocumentation(): string {
  const sections = RULES.map((rule) =>
    [
      `## ${rule.id}`,
      "",
      `**${rule.title}.**`,
      "",
      rule.explanation,
      "",
      `For example: ${rule.example}`,
      "",
      `Fix: ${rule.fix}`,
      "",
    ].join("\n"),
  );
  return [
    "# What `gpu-gate lint` checks",
    "",
    "Generated from the rules in `shared/lint/rules/` by `node cli/main.ts lint --rules-markdown > docs/lint-rules.md`; a test keeps it current.",
    "",
    "`gpu-gate lint [DIR | FILE...]` reads workflow files (`.github/workflows` unless told otherwise) and judges them together. It exits with 0 when",
    "they are clean, 1 when a rule speaks, 2 when it was called wrongly. `--format sarif` writes SARIF 2.1.0 for code scanning, `--format github`",
    "writes annotations. Lanes, required checks and the gate's name come from `.github/gpu-gate.yml` (`--config FILE`) where there is one.",
    "What is missing (a workflow, a script, a check that nobody publishes, the configuration itself) is found when all files of a repository's",
    "`.github/workflows` are judged, as without arguments; files that are named one by one are judged by what they hold.",
    "",
    "Where a fact cannot be told from the text, such as a label or a ref that an expression makes, a rule assumes the dangerous answer.",
    "",
    ...sections,
  ].join("\n");
}
