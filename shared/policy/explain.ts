/** Which entry of the configuration decides for one path, and what a change of this path alone would ask for. */
import { changePolicy, type ChangeClass } from "./classify.ts";
import { plainFile } from "./changes.ts";
import type { Match, PolicySource } from "./path-index.ts";
import { isPrintableByGit } from "./paths.ts";

export interface PathExplanation {
  readonly path: string;
  /** What the path is by itself; `both` is in the CI and in the documentation sets. */
  readonly kind: "code" | "docs" | "ci" | "both";
  /** The rule in one sentence. */
  readonly because: string;
  /** What a pull request that changes nothing else would be. */
  readonly alone: ChangeClass;
  /** Lanes such a pull request asks for. */
  readonly lanes: readonly string[];
  /** Lanes the path steers, or is known not to steer, with the entry that says so. */
  readonly steers: readonly { readonly lane: string; readonly entry: string }[];
  readonly neverAsksFor: readonly { readonly lane: string; readonly entry: string }[];
}

export function explainPaths(config: PolicySource, paths: readonly string[]): PathExplanation[] {
  const policy = changePolicy(config);
  return paths.map((path) => {
    const verdict = policy.index.look(path);
    const alone = policy.classify({ event: "pull_request", files: [plainFile(path)], problem: null });
    const possible = isPrintableByGit(path);
    const { docs, ci, except } = verdict;
    return {
      path,
      kind: possible ? kindOf(docs, ci) : "code",
      because: possible ? because(docs, ci, except) : "git never prints such a path, so it is taken for code",
      alone: alone.classification,
      lanes: Object.keys(alone.lanes).filter((lane) => alone.lanes[lane] === true),
      steers: verdict.control.map(({ lane, match }) => ({ lane, entry: match.entry })),
      neverAsksFor: verdict.hostedOnly.map(({ lane, match }) => ({ lane, entry: match.entry })),
    };
  });
}

function kindOf(docs: Match | null, ci: Match | null): PathExplanation["kind"] {
  if (docs !== null && ci !== null) return "both";
  if (ci !== null) return "ci";
  return docs === null ? "code" : "docs";
}

function because(docs: Match | null, ci: Match | null, except: Match | null): string {
  const rules = [
    ...(docs === null ? [] : [`paths.docs has ${entryText(docs)}`]),
    ...(ci === null ? [] : [`paths.ci has ${entryText(ci)}`]),
  ];
  if (rules.length > 0) return rules.join(" and ");
  if (except !== null) return `paths.docs.except_prefixes has ${entryText(except)}, so it is code`;
  return "no entry of paths.docs or paths.ci matches, so it is code";
}

function entryText(match: Match): string {
  return `${match.prefix ? "the folder" : "the file"} \`${match.entry}\``;
}
