/** Somebody publishes every check that the gate or the aggregator waits for. */
import { isForeign, isWritten, placeIn, together, type DeclaredConfig } from "../declared.ts";
import { publishedBy, runsFor, type Asked } from "../published.ts";
import type { Rule } from "../rule.ts";
import type { Repository } from "../workflow.ts";

interface Awaited {
  readonly path: readonly string[];
  readonly name: string;
  readonly on: Asked;
  /** What comes of it when nobody publishes the check. */
  readonly cost: string;
}

export const awaitedCheckWithoutPublisher: Rule = {
  id: "awaited-check-without-publisher",
  title: "Somebody publishes every check that is waited for",
  explanation:
    "`pre_gate` (and `merge_queue.pre_gate`) is `[rustfmt, clippy]` unless the configuration says otherwise. A request waits for these checks on its commit " +
    "until `limits.preparation`, 85 minutes, and then ends red; a check with `report: must` that never comes keeps the aggregator red. A job publishes its `name`, " +
    "or its id where it has none, one for each combination of its matrix, and `caller / called` where it calls a workflow. What an expression in a name comes to is " +
    "known for a literal matrix only; a name that is nothing but such an expression stands for no check.",
  example:
    "A project without Rust copied the example configuration. Every pull request prepared well, waited 85 minutes for `clippy`, and was then told that it was late.",
  fix:
    "Call a job exactly so, in a workflow that pull requests (for a merge group: merge groups) start, or take the name out (`pre_gate: []`). Where another App publishes the check, " +
    "list it in `required_checks` with that App's `app_id`.",
  check: (repository, config, found) => {
    const { declared } = config;
    if (declared.kind !== "read" || repository.tree === null) return;
    const names = {
      pull_request: namesFor(repository, "pull_request"),
      merge_group: namesFor(repository, "merge_group"),
    };
    together(found, (say) => {
      for (const { path, name, on, cost } of awaitedBy(declared, repository)) {
        if (isForeign(declared.config, name) || names[on].some((fits) => fits(name))) continue;
        const commit = on === "merge_group" ? "a merge group's commit" : "a pull request's head";
        say(placeIn(declared, path, name), `${path.join(".")}: no job publishes '${name}' for ${commit}; ${cost}.`);
      }
    });
  },
};

function awaitedBy(declared: DeclaredConfig, repository: Repository): readonly Awaited[] {
  const { config } = declared;
  const minutes = Math.round(config.limits.preparation / 60);
  const hangs = `each request that needs the GPU waits for it until limits.preparation (${minutes} min) and fails`;
  const queue =
    isWritten(declared, ["merge_queue"]) || repository.files.some((file) => file.triggers.has("merge_group"));
  return [
    ...config.pre_gate.map((name): Awaited => ({ path: ["pre_gate"], name, on: "pull_request", cost: hangs })),
    ...(queue ? config.merge_queue.pre_gate : []).map((name): Awaited => ({
      path: ["merge_queue", "pre_gate"],
      name,
      on: "merge_group",
      cost: hangs,
    })),
    ...config.required_checks.flatMap(({ name, report }): readonly Awaited[] => {
      if (report === "may-skip") return [];
      return [{ path: ["required_checks"], name, on: "pull_request", cost: `'report: ${report}' accepts no absence` }];
    }),
  ];
}

function namesFor(repository: Repository, on: Asked): readonly ((name: string) => boolean)[] {
  return repository.files
    .filter((file) => runsFor(file, on))
    .flatMap((file) => publishedBy(repository, file).map((one) => one.fits));
}
