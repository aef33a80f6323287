/** The aggregator's rules as the repository configured them: required checks, and the lanes that own some of them. */
import type { AggregatorRules } from "../policy/aggregator.ts";
import type { RepositoryConfig } from "./schema.ts";

export function aggregatorRules(
  config: Pick<RepositoryConfig, "required_checks" | "lanes" | "aggregator">,
): AggregatorRules {
  const named = (report: string): string[] =>
    config.required_checks.filter((check) => check.report === report).map((check) => check.name);
  const lanes: [string, string][] = [];
  const waitsFor = new Map(config.required_checks.map((check) => [check.name, [...check.waits_for]]));
  for (const lane of Object.values(config.lanes)) {
    if (lane.own === null) continue;
    for (const check of lane.checks) {
      lanes.push([check, lane.own.switch]);
      if (lane.own.probe !== null) waitsFor.set(check, [...(waitsFor.get(check) ?? []), lane.own.probe]);
    }
  }
  return {
    required: config.required_checks.map((check) => check.name),
    strict: named("must"),
    lanes: Object.fromEntries(lanes),
    waitsFor: Object.fromEntries([...waitsFor].filter(([, names]) => names.length > 0)),
    releaseMustReport: named("must-on-release"),
    releaseHeadPrefix: config.aggregator.release_prefix,
    producers: Object.fromEntries(
      config.required_checks.flatMap((check) => (check.app_id === null ? [] : [[check.name, check.app_id]])),
    ),
  };
}
