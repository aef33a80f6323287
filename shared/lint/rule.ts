/** What a rule of the workflow linter is, and what it finds. */
import type { Declared } from "./declared.ts";
import type { Position } from "./yaml.ts";
import type { Repository } from "./workflow.ts";

export interface Place extends Position {
  readonly file: string;
}

export interface Finding extends Place {
  readonly rule: string;
  /** One sentence: what is wrong here. The fix is the rule's. */
  readonly message: string;
}

export interface LintLane {
  readonly name: string;
  /** The exact label set; compared without case. */
  readonly runsOn: readonly string[];
  readonly checks: readonly string[];
  /** Repository variable that switches the lane on; null where the configuration was not read. */
  readonly switch: string | null;
  /** Check name of the job that probes for the lane; null: none is named. */
  readonly probe: string | null;
}

/** The part of the repository's configuration that the linter reads. */
export interface LintConfig {
  /** Names that the branch rule requires, besides the gate's own check. */
  readonly requiredChecks: readonly string[];
  /** The check that the control plane publishes; no workflow job may carry its name. */
  readonly gateCheck: string;
  /** The control plane's check over all required ones, if there is one; no workflow job may carry its name either. */
  readonly aggregateCheck: string | null;
  readonly defaultBranch: string;
  readonly mergeQueue: boolean;
  /** Lanes on own machines; null where no configuration was read, so that nobody can say which there are. */
  readonly lanes: readonly LintLane[] | null;
  /** The configuration that stands beside the files: for rules that compare one with the other. */
  readonly declared: Declared;
}

export const DEFAULT_LINT_CONFIG: LintConfig = {
  requiredChecks: [],
  gateCheck: "CI GPU gate",
  aggregateCheck: null,
  defaultBranch: "main",
  mergeQueue: false,
  lanes: null,
  declared: { kind: "unknown" },
};

/** `found` is what a rule reports: the rule's id is added by the runner. */
export type Report = (place: Place, message: string) => void;

export interface Rule {
  readonly id: string;
  readonly title: string;
  /** Why it matters, two or three sentences. */
  readonly explanation: string;
  /** The attack or the incident it stops. */
  readonly example: string;
  readonly fix: string;
  readonly check: (repository: Repository, config: LintConfig, found: Report) => void;
}
