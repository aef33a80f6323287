/**
 * Who waits for whom: the gate for its pre-gate checks, the aggregator for every required check, a check for those after which
 * it appears. A circle would hang until a limit ends it, with a verdict that names something else; so it is refused here.
 */
import { aggregatorRules } from "./aggregator-rules.ts";
import type { Finding } from "./checks.ts";
import type { RepositoryConfig } from "./schema.ts";

export function waitFindings(config: RepositoryConfig): Finding[] {
  const { required, waitsFor } = aggregatorRules(config);
  const waits = new Map<string, readonly string[]>(Object.entries(waitsFor));
  const aggregate = config.aggregator.name;
  if (aggregate !== null) waits.set(aggregate, [...required, ...(waits.get(aggregate) ?? [])]);
  const gate = config.check.name;
  return [
    ...preGateFindings(["pre_gate"], config.pre_gate, gate, waits),
    ...preGateFindings(["merge_queue", "pre_gate"], config.merge_queue.pre_gate, gate, waits),
    ...config.required_checks.flatMap((check, index): Finding[] => {
      const path = ["required_checks", index];
      if (check.name === aggregate) return [ownAggregate([...path, "name"])];
      if (aggregate !== null && check.waits_for.includes(aggregate)) return [ownAggregate([...path, "waits_for"])];
      const place = check.waits_for.findIndex((other) => wayTo(check.name, other, waits) !== null);
      if (place < 0) return [];
      const way = wayTo(check.name, check.waits_for[place] ?? "", waits) ?? [];
      return [
        finding(
          [...path, "waits_for", place],
          `\`${check.name}\` waits for itself: ${way.map(quoted).join(", which waits for ")}`,
        ),
      ];
    }),
  ];
}

function preGateFindings(
  path: readonly string[],
  names: readonly string[],
  gate: string,
  waits: ReadonlyMap<string, readonly string[]>,
): Finding[] {
  return names.flatMap((name, index): Finding[] => {
    const way = wayTo(gate, name, waits);
    if (way === null) return [];
    const message =
      way.length === 1
        ? "the gate cannot wait for its own check"
        : `the gate cannot wait for a check that waits for the gate: ${way.map(quoted).join(" waits for ")}`;
    return [finding([...path, index], message)];
  });
}

/** The names from `from` on to `target`, each waiting for the next; null: there is no such way. */
function wayTo(target: string, from: string, waits: ReadonlyMap<string, readonly string[]>): readonly string[] | null {
  const seen = new Set([from]);
  const ways: (readonly string[])[] = [[from]];
  for (const way of ways) {
    const last = way.at(-1) ?? "";
    if (last === target) return way;
    for (const next of waits.get(last) ?? []) {
      if (seen.has(next)) continue;
      seen.add(next);
      ways.push([...way, next]);
    }
  }
  return null;
}

const quoted = (name: string): string => `\`${name}\``;

function ownAggregate(path: readonly PropertyKey[]): Finding {
  const message = "the aggregator cannot wait for its own check";
  return { path, at: "value", message, fix: "Remove it here; only branch protection names it." };
}

function finding(path: readonly PropertyKey[], message: string): Finding {
  return { path, at: "value", message, fix: "Remove it here." };
}
