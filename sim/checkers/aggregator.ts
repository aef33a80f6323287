/**
 * The aggregator says what the checks under it say (N97, N100), reckoned anew from GitHub's books: it is green only if, at a moment
 * just before, the check that must report was green by whoever's word counts; it is red only if something was not; and it is not
 * left red behind a check that has turned green since. Of two checks of one name by one App the newer speaks; where no App is named everybody's must be green.
 */
import type { Millis } from "../../shared/ports.ts";
import { AGGREGATE, OWN_SWITCH } from "../people.ts";
import { ACTIONS_APP_ID, APP_ID, type CheckRun, type Repository } from "../github-model.ts";
import type { Checker, WorldView } from "../view.ts";

/** The check that the drawn configuration calls strict. */
const STRICT = "clippy";
const LANE = "Coverage GPU";
const OTHERS = ["rustfmt", LANE];
/** Between the reading and the writing lie answers that may be slow, or have to be asked for again. */
const READ_MS = 600_000;
/** A check that is so much older than the aggregator's own is of another life of the commit. */
const EARLIER_LIFE_MS = 120_000;

export function aggregator(): Checker {
  return {
    name: "aggregator",
    wrote(world, repository, check) {
      if (check.name !== AGGREGATE || check.appId !== APP_ID || check.status !== "completed") return null;
      const { headSha } = check;
      const changes = [STRICT, ...OTHERS].flatMap((name) => changesOf(repository, headSha, name));
      const moments = [world.now, ...changes.flatMap((at) => [at - 1, at]), world.now - READ_MS].filter(
        (at) => at >= world.now - READ_MS,
      );
      if (check.conclusion === "success")
        return moments.some((at) => isGreen(repository, headSha, STRICT, at))
          ? null
          : `'${AGGREGATE}' is green on ${headSha.slice(0, 8)} without a green ${STRICT}`;
      if (check.conclusion !== "failure") return null;
      return isOfThisLife(repository, check) &&
        moments.every((at) => [STRICT, ...OTHERS].every((name) => isGreen(repository, headSha, name, at)))
        ? `'${AGGREGATE}' is ${check.conclusion} on ${headSha.slice(0, 8)}, where all that it asks for is green`
        : null;
    },
    owed: leftRed,
    end: leftRed,
  };
}

/** When a check of a head changed, lately or not. */
function changesOf(repository: Repository, headSha: string, name: string): readonly Millis[] {
  return named(repository, headSha, name).flatMap(({ startedAt, completedAt }) => [
    ...(startedAt === null ? [] : [startedAt]),
    ...(completedAt === null ? [] : [completedAt]),
  ]);
}

function named(repository: Repository, headSha: string, name: string): readonly CheckRun[] {
  return [...repository.checks.values()].filter((one) => one.headSha === headSha && one.name === name);
}

/** Whether a check was green at an instant: by the App that the rules name for it, or by each that has one. */
function isGreen(repository: Repository, headSha: string, name: string, at: Millis): boolean {
  const there = named(repository, headSha, name).filter(({ startedAt }) => startedAt !== null && startedAt <= at);
  const apps =
    name === STRICT && isPinned(repository) ? [ACTIONS_APP_ID] : [...new Set(there.map(({ appId }) => appId))];
  const newest = apps.map((appId) =>
    there
      .filter((one) => one.appId === appId)
      .toSorted(byAge)
      .at(-1),
  );
  return (
    newest.length > 0 &&
    newest.every((one) => one !== undefined && (one.completedAt ?? Infinity) <= at && one.conclusion === "success")
  );
}

/** What reported while the pull request was a draft, say, counts no more: it has to report again. */
function isOfThisLife(repository: Repository, { headSha, startedAt }: CheckRun): boolean {
  const here = [...repository.pulls.values()].filter((pull) => pull.headSha === headSha);
  const bornAt = Math.max(startedAt ?? 0, ...here.flatMap(({ changes }) => changes));
  // A lane that ran again has its probe first, and without a machine no check of its job.
  const beganAt = (name: string): Millis =>
    Math.max(-Infinity, ...named(repository, headSha, name).map((one) => one.startedAt ?? 0));
  if (beganAt(LANE) < beganAt("Probe")) return false;
  return [STRICT, ...OTHERS].every((name) =>
    named(repository, headSha, name).every((one) => (one.startedAt ?? 0) >= bornAt - EARLIER_LIFE_MS),
  );
}

function byAge(one: CheckRun, other: CheckRun): number {
  return (one.startedAt ?? 0) - (other.startedAt ?? 0) || Number(one.id) - Number(other.id);
}

function isPinned({ config, configBefore }: Repository): boolean {
  return /name: clippy[^}]*app_id/.test(configBefore ?? config);
}

/** Red on the head of an open pull request, although the check it was red for has turned green since, and nothing else is red. */
function leftRed(world: WorldView): string | null {
  for (const { repository, up, gate } of world.hosts) {
    if (repository.standing !== "ok" || !up || gate.readOnly || !repository.config.includes("aggregator:")) continue;
    for (const { state, draft, headSha } of repository.pulls.values()) {
      if (state !== "open" || draft) continue;
      const last = named(repository, headSha, AGGREGATE)
        .filter(({ appId }) => appId === APP_ID)
        .at(-1);
      if (last?.conclusion !== "failure" || !isOfThisLife(repository, last)) continue;
      if (!isGreen(repository, headSha, STRICT, world.now)) continue;
      if (named(repository, headSha, "rustfmt").some(({ conclusion }) => conclusion !== "success")) continue;
      // A lane's switch that was thrown since is nobody's word about this head: only a check that came after the red one is.
      const lane = named(repository, headSha, LANE);
      const since = changesOf(repository, headSha, STRICT).some((at) => at > (last.completedAt ?? Infinity));
      const off = lane.length === 0 && since && repository.variables.get(OWN_SWITCH) !== "true";
      if (off || isGreen(repository, headSha, LANE, world.now))
        return `'${AGGREGATE}' is red on ${headSha.slice(0, 8)}, where all that it asks for is green`;
    }
  }
  return null;
}
