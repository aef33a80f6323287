/**
 * The configured path sets, prepared so that one path is judged in time proportional to its depth, not to the number of
 * patterns: exact names are one look-up, folder prefixes one look-up at each `/`.
 */
import { builtInDeviceControl } from "../config/checks.ts";
import type { RepositoryConfig } from "../config/schema.ts";

/** The part of the configuration that decides classes and lanes. */
export type PolicySource = Pick<RepositoryConfig, "paths" | "lanes" | "workflows">;

export type LightClass = "docs" | "ci";

/** An entry of the configuration that matched, for explanations. */
export interface Match {
  readonly entry: string;
  readonly prefix: boolean;
}

export interface PathVerdict {
  /** The light classes the path is in; none means code. */
  readonly docs: Match | null;
  readonly ci: Match | null;
  /** The exception that made a documentation path code after all. */
  readonly except: Match | null;
  /** Lanes the path steers, with the entry that says so. */
  readonly control: readonly { readonly lane: string; readonly match: Match }[];
  readonly hostedOnly: readonly { readonly lane: string; readonly match: Match }[];
}

interface Mark {
  docs?: true;
  except?: true;
  ci?: true;
  control?: string[];
  hostedOnly?: string[];
}

export interface PolicyIndex {
  readonly laneNames: readonly string[];
  /** Lanes that each light class asks for. */
  readonly askedBy: Readonly<Record<LightClass, readonly string[]>>;
  readonly look: (path: string) => PathVerdict;
}

/** Prepares a configuration; do it once per configuration, not once per path. */
export function buildPolicyIndex(config: PolicySource): PolicyIndex {
  const files = new Map<string, Mark>();
  const prefixes = new Map<string, Mark>();
  const markOf = (map: Map<string, Mark>, entry: string): Mark => {
    const known = map.get(entry);
    if (known !== undefined) return known;
    const fresh: Mark = {};
    map.set(entry, fresh);
    return fresh;
  };
  const { docs, ci } = config.paths;
  for (const entry of docs.files) markOf(files, entry).docs = true;
  for (const entry of docs.prefixes) markOf(prefixes, entry).docs = true;
  for (const entry of docs.except_prefixes) markOf(prefixes, entry).except = true;
  for (const entry of ci.files) markOf(files, entry).ci = true;
  for (const entry of ci.prefixes) markOf(prefixes, entry).ci = true;
  const lanes = Object.entries(config.lanes);
  for (const [lane, { control, hosted_only }] of lanes) {
    for (const entry of control.files) (markOf(files, entry).control ??= []).push(lane);
    for (const entry of control.prefixes) (markOf(prefixes, entry).control ??= []).push(lane);
    for (const entry of hosted_only.files) (markOf(files, entry).hostedOnly ??= []).push(lane);
    for (const entry of hosted_only.prefixes) (markOf(prefixes, entry).hostedOnly ??= []).push(lane);
  }
  // The policy and the trusted workflows decide whether the paid lane runs at all, so no list can leave them out.
  for (const entry of builtInDeviceControl(config)) {
    const mark = (markOf(files, entry).control ??= []);
    if (!mark.includes("gpu")) mark.push("gpu");
  }
  const asking = (light: LightClass): string[] =>
    lanes.filter(([, lane]) => lane.asked_by.includes(light)).map(([name]) => name);
  return {
    laneNames: lanes.map(([name]) => name),
    askedBy: { docs: asking("docs"), ci: asking("ci") },
    look: (path) => look(path, files, prefixes),
  };
}

interface Found {
  docs: Match | null;
  ci: Match | null;
  except: Match | null;
  control: { lane: string; match: Match }[];
  hostedOnly: { lane: string; match: Match }[];
}

function look(path: string, files: ReadonlyMap<string, Mark>, prefixes: ReadonlyMap<string, Mark>): PathVerdict {
  const found: Found = { docs: null, ci: null, except: null, control: [], hostedOnly: [] };
  take(found, files.get(path), path, false);
  // An exactly named file is what it is named; the exception is for what the documentation folders sweep in.
  const namedAsDocs = found.docs !== null;
  for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
    const entry = path.slice(0, slash + 1);
    take(found, prefixes.get(entry), entry, true);
  }
  if (namedAsDocs) return { ...found, except: null };
  return found.except === null ? found : { ...found, docs: null };
}

function take(found: Found, mark: Mark | undefined, entry: string, prefix: boolean): void {
  if (mark === undefined) return;
  const match: Match = { entry, prefix };
  if (mark.docs) found.docs ??= match;
  if (mark.ci) found.ci ??= match;
  if (mark.except) found.except ??= match;
  for (const lane of mark.control ?? []) found.control.push({ lane, match });
  for (const lane of mark.hostedOnly ?? []) found.hostedOnly.push({ lane, match });
}
