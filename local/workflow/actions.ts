/**
 * The actions that the local world can perform, the one commit of each whose behaviour that is, and the inputs it
 * understands. A workflow that uses another action, another commit, or another input is refused when it is read.
 */

import { err, ok, type Result } from "../../shared/result.ts";

export type ActionName =
  | "actions/checkout"
  | "actions/upload-artifact"
  | "actions/download-artifact"
  | "actions/cache"
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
  /** Restores at its place, and saves when the job has gone well: `JobState` of steps.ts knows nothing of the second half. */
  "actions/cache": ["path", "key", "restore-keys", "lookup-only"],
  "actions/cache/restore": ["path", "key", "restore-keys", "lookup-only"],
  "actions/cache/save": ["path", "key"],
  "gpu-gate-probe": ["lane", "switch", "token", "labels", "runbook", "organisation", "root"],
};

/**
 * The commit of each action that is performed here: another commit is another program. A repository is one pin, whatever
 * folder of it is used.
 */
export const PINS: Readonly<Record<string, { readonly sha: string; readonly version: string }>> = {
  "actions/checkout": { sha: "de0fac2e4500dabe0009e67214ff5f5447ce83dd", version: "v6.0.2" },
  "actions/upload-artifact": { sha: "043fb46d1a93c77aae656e7c1c64a875d1fc6a0a", version: "v7.0.1" },
  "actions/download-artifact": { sha: "3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", version: "v8.0.1" },
  "actions/cache": { sha: "55cc8345863c7cc4c66a329aec7e433d2d1c52a9", version: "v6.1.0" },
};

export interface ActionUse {
  readonly action: ActionName;
  /** The pinned commit, 40 hex digits; null for an action of a checkout. */
  readonly sha: string | null;
}

export type UsesProblem =
  | { readonly reason: "unknown" }
  | { readonly reason: "other-commit"; readonly sha: string; readonly version: string };

/** Reads `owner/name@sha`, or the path of our own action. */
export function parseUses(text: string): Result<ActionUse, UsesProblem> {
  if (/^\.\/(?:[\w.-]+\/)*\.github\/actions\/gpu-gate-probe$/.test(text))
    return ok({ action: "gpu-gate-probe", sha: null });
  const match = /^(actions\/[^@]+)@([0-9a-f]{40})$/.exec(text);
  const action = (Object.keys(ACTIONS) as ActionName[]).find((name) => name === match?.[1]);
  if (action === undefined || match?.[2] === undefined) return err({ reason: "unknown" });
  const pin = PINS[action.split("/").slice(0, 2).join("/")];
  if (pin !== undefined && pin.sha !== match[2]) return err({ reason: "other-commit", ...pin });
  return ok({ action, sha: match[2] });
}
