/**
 * The lanes on the maintainers' own machines as the status page lists them: looked at when the gate compares itself with
 * GitHub, and told with the time of that look. For people only: nothing is ever admitted by what is kept here.
 */
import * as z from "zod";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import { describeFailure } from "../../shared/github/failure.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { laneRows, type LaneRow } from "../../shared/policy/lanes.ts";
import { admitProbe, decideProbe, type ProbeVerdict } from "../../shared/policy/probe.ts";
import { probeLive } from "../../shared/policy/read-runners.ts";
import type { Millis } from "../../shared/ports.ts";
import { rentedRunnerIds } from "./dispatched.ts";
import type { GatePorts } from "./ports.ts";
import type { Store } from "./store.ts";
import { storedJson } from "./stored-json.ts";

export interface LaneView extends LaneRow {
  /** The switch's value at the last look, shortened; null: not set, or not read. */
  readonly switchValue: string | null;
  /** When it was last looked at; null: not yet, or too long ago to say anything. */
  readonly seenAt: Millis | null;
}

const sightings = z.record(
  z.string(),
  z.object({
    at: z.number(),
    switchValue: z.string().nullable(),
    state: z.enum(["READY", "OPEN"]),
    code: z.string().nullable(),
    why: z.string(),
  }),
);
type Sighting = z.infer<typeof sightings>[string];

/** A look older than this many rounds of reconciling says nothing any more. */
const STALE_ROUNDS = 3;
const VALUE_SHOWN = 100;

/** Asks for each lane's switch, and for runners where one is on. Never throws for what GitHub says. */
export async function lookAtLanes(
  config: RepositoryConfig,
  ports: GatePorts,
  store: Store,
  github: GitHubClient,
): Promise<void> {
  const own = Object.entries(config.lanes).filter(([, lane]) => lane.own !== null);
  if (own.length === 0) return;
  const seen: Record<string, Sighting> = {};
  for (const [name, lane] of own) {
    const { switchValue, verdict } = await look(lane, config, store, github);
    const row = laneRows({ [name]: lane }, new Map([[name, verdict]]))[0];
    if (row === undefined) continue;
    const { state, code, why } = row;
    seen[name] = { at: ports.clock.now(), switchValue: switchValue?.slice(0, VALUE_SHOWN) ?? null, state, code, why };
  }
  store.setMeta("lanes", JSON.stringify(seen));
}

/** Every lane of the newest known configuration; one without a recent look is open, whatever was true before. */
export function laneViews(store: Store, now: Millis): readonly LaneView[] {
  const config = store.config(store.meta("last_config") ?? "");
  if (config === null) return [];
  const stored = sightings.safeParse(storedJson(store.meta("lanes") ?? "{}"));
  const freshAfter = now - STALE_ROUNDS * config.limits.reconcile * 1000;
  return laneRows(config.lanes).map((row) => {
    const seen = stored.success && Object.hasOwn(stored.data, row.name) ? stored.data[row.name] : undefined;
    if (seen === undefined || seen.at < freshAfter) {
      const why = seen === undefined ? "Not looked at yet." : "Not looked at lately.";
      return { ...row, switchValue: null, seenAt: null, why };
    }
    const ready = seen.state === "READY";
    const code = seen.code as LaneRow["code"];
    const { switchValue, at: seenAt, why } = seen;
    return { ...row, state: seen.state, word: ready ? "" : "NOT RUN", code, why, switchValue, seenAt };
  });
}

async function look(
  lane: RepositoryConfig["lanes"]["gpu"],
  config: RepositoryConfig,
  store: Store,
  github: GitHubClient,
): Promise<{ readonly switchValue: string | null; readonly verdict: ProbeVerdict }> {
  const requiredLabels = lane.own?.runs_on ?? [];
  const name = lane.own?.switch ?? "";
  const value = await github.getRepositoryVariable(name);
  if (!value.ok && value.error.reason !== "not-found") {
    const what = `the switch ${name} could not be read: ${describeFailure(value.error)}`;
    const verdict = decideProbe({ switchValue: "true", requiredLabels, listing: { kind: "failure", what } });
    return { switchValue: null, verdict };
  }
  const switchValue = value.ok ? value.value : null;
  const admitted = admitProbe({ switchValue, requiredLabels });
  if (!admitted.ask) return { switchValue, verdict: admitted.verdict };
  const { owner, name: repository } = github.repository;
  const scope = { owner, repository, organisation: config.runner.scope === "organization" };
  const rented = new Set(rentedRunnerIds(store));
  return { switchValue, verdict: await probeLive(admitted.labels, (path) => github.read(path), scope, rented) };
}
