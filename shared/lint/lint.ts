/**
 * The workflow linter: workflow files in, findings out. Pure; reading files and printing is the command's.
 *
 * All files are judged together, because two workflows may own the same lane or publish the same check.
 */
import { onOneLine } from "../text.ts";
import { DEFAULT_LINT_CONFIG, type Finding, type LintConfig, type Rule } from "./rule.ts";
import { awaitedCheckWithoutPublisher } from "./rules/awaited.ts";
import { otherDefaultBranch } from "./rules/branch.ts";
import { cacheModeMissing, cacheWriteOffMain } from "./rules/cache.ts";
import { calledFileMissing } from "./rules/called.ts";
import { configurationMissing, declaredWorkflowMissing } from "./rules/declared.ts";
import { evidenceNotThere } from "./rules/evidence.ts";
import { concurrencyEvictsWaiters, jobForgivesItself, queueMaxWithCancel, scriptInjection } from "./rules/flow.ts";
import { laneContractDiffers } from "./rules/lane-contract.ts";
import {
  callerChosenWorkflowRef,
  checkTwoOwners,
  hardwareJobWithoutProbe,
  laneTwoOwners,
  requiredCheckNotPublished,
  unknownLane,
} from "./rules/lanes.ts";
import { missingTimeout, movingRunnerLabel, unpinnedAction } from "./rules/pins.ts";
import { probeOfAnotherLane } from "./rules/probe.ts";
import {
  checkoutPersistsToken,
  defaultPermissions,
  idTokenWithUntrustedCode,
  pullRequestTarget,
  selfHostedSecret,
  selfHostedWriteScope,
  untrustedRefWithSecrets,
} from "./rules/trust.ts";
import type { Tree } from "./tree.ts";
import { readWorkflow, type WorkflowFile } from "./workflow.ts";
import { get, parseYaml } from "./yaml.ts";

/** A file that cannot be read is a finding too: an unchecked workflow is not a clean one. */
export const unreadableWorkflow: Rule = {
  id: "unreadable-workflow",
  title: "The file can be read as a workflow",
  explanation: "What cannot be parsed cannot be checked, and GitHub may read it differently than a person does.",
  example: "A key written twice: the reviewer saw the first `permissions`, the parser took the second.",
  fix: "Correct the YAML; a workflow has `on` and `jobs`.",
  check: () => {},
};

/** Every rule, in the order of the documentation: the gravest first. */
export const RULES: readonly Rule[] = [
  pullRequestTarget,
  untrustedRefWithSecrets,
  selfHostedSecret,
  selfHostedWriteScope,
  idTokenWithUntrustedCode,
  callerChosenWorkflowRef,
  scriptInjection,
  checkoutPersistsToken,
  cacheModeMissing,
  cacheWriteOffMain,
  defaultPermissions,
  unpinnedAction,
  configurationMissing,
  declaredWorkflowMissing,
  evidenceNotThere,
  awaitedCheckWithoutPublisher,
  calledFileMissing,
  requiredCheckNotPublished,
  jobForgivesItself,
  checkTwoOwners,
  hardwareJobWithoutProbe,
  probeOfAnotherLane,
  unknownLane,
  laneContractDiffers,
  laneTwoOwners,
  otherDefaultBranch,
  concurrencyEvictsWaiters,
  queueMaxWithCancel,
  missingTimeout,
  movingRunnerLabel,
  unreadableWorkflow,
];

export interface SourceFile {
  /** Path as it is shown in findings, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** Characters of a message, which is on one line: it may quote what the file holds, and a file may hold anything. */
const LONGEST = 1_000;

/**
 * Findings in file, line, column order; each rule speaks at most once per place. With a `tree` the sources are all workflow
 * files of a repository, and what is not there is found as well; without one nothing is said about what is absent.
 */
export function lintWorkflows(
  sources: readonly SourceFile[],
  config: LintConfig = DEFAULT_LINT_CONFIG,
  tree: Tree | null = null,
): readonly Finding[] {
  const findings = new Map<string, Finding>();
  const add = ({ message, ...found }: Finding): void => {
    const key = [found.file, found.line, found.column, found.rule].join("\0");
    const said = onOneLine(message);
    const short = said.length > LONGEST ? `${said.slice(0, LONGEST - 1)}…` : said;
    if (!findings.has(key)) findings.set(key, { ...found, message: short });
  };
  const files: WorkflowFile[] = [];
  for (const source of sources) {
    const parsed = parseYaml(source.text);
    if (!parsed.ok) {
      add({
        rule: unreadableWorkflow.id,
        file: source.path,
        ...parsed.error.at,
        message: `Not readable: ${parsed.error.message}.`,
      });
    } else if (get(parsed.value, "on") === undefined || get(parsed.value, "jobs")?.kind !== "map") {
      add({
        rule: unreadableWorkflow.id,
        file: source.path,
        line: 1,
        column: 1,
        message: "A workflow needs 'on' and 'jobs'.",
      });
    } else files.push(readWorkflow(source.path, parsed.value));
  }
  for (const rule of RULES) {
    rule.check({ files, tree }, config, (place, message) =>
      add({
        rule: rule.id,
        file: place.file,
        line: place.line,
        column: place.column,
        message,
      }),
    );
  }
  return [...findings.values()].sort(
    (a, b) => compare(a.file, b.file) || a.line - b.line || a.column - b.column || compare(a.rule, b.rule),
  );
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
