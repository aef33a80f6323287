/**
 * The actions that the local world can perform, and the inputs it understands of each. A workflow that uses another
 * action, or another input of these, is refused when it is read.
 */

export type ActionName =
  | "actions/checkout"
  | "actions/upload-artifact"
  | "actions/download-artifact"
  | "actions/cache/restore"
  | "actions/cache/save"
  /** This project's own composite action, taken from a checkout. */
  | "gpu-gate-probe";

export const ACTIONS: Readonly<Record<ActionName, readonly string[]>> = {
  "actions/checkout": ["ref", "repository", "path", "fetch-depth", "persist-credentials", "sparse-checkout"],
  "actions/upload-artifact": ["name", "path", "compression-level", "retention-days", "if-no-files-found"],
  "actions/download-artifact": [
    "name",
    "artifact-ids",
    "run-id",
    "github-token",
    "repository",
    "path",
    "merge-multiple",
  ],
  "actions/cache/restore": ["path", "key", "lookup-only"],
  "actions/cache/save": ["path", "key"],
  "gpu-gate-probe": ["lane", "switch", "token", "labels", "runbook", "organisation", "root"],
};

export interface ActionUse {
  readonly action: ActionName;
  /** The pinned commit, 40 hex digits; null for an action of a checkout. */
  readonly sha: string | null;
}

/** Reads `owner/name@sha`, or the path of our own action. Null for an action that is not listed or not pinned. */
export function parseUses(text: string): ActionUse | null {
  if (/^\.\/(?:[\w.-]+\/)*\.github\/actions\/gpu-gate-probe$/.test(text))
    return { action: "gpu-gate-probe", sha: null };
  const match = /^(actions\/[^@]+)@([0-9a-f]{40})$/.exec(text);
  const action = (Object.keys(ACTIONS) as ActionName[]).find((name) => name === match?.[1]);
  return action === undefined || match?.[2] === undefined ? null : { action, sha: match[2] };
}
