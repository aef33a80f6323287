/**
 * Tells a gate which repository it guards. Webhooks do so by the way; a repository on the allow-list whose deliveries were
 * all lost would otherwise wait for ever for somebody to push again.
 *
 * The allow-list has numbers only, so the App's installations are read until they name them. Anybody can install an App:
 * one turn reads so many installations, the next goes on behind the last one.
 */
import type { GitHubAppClient, Installation } from "../shared/github/app-client.ts";
import { describeFailure } from "../shared/github/failure.ts";
import type { RepositoryRef } from "../shared/lifecycle/signal.ts";
import type { Millis } from "../shared/ports.ts";
import type { TurnsPort } from "./ports.ts";
import { messageOf } from "./wake-gates.ts";

export interface FindPorts {
  readonly github: Pick<GitHubAppClient, "listInstallations" | "listInstallationRepositories">;
  readonly turns: TurnsPort;
  readonly everyMs: Millis;
  readonly introduce: (repository: RepositoryRef, installationId: string) => Promise<void>;
}

export interface FindStatus {
  readonly kind: "none-missing" | "not-due" | "no-list" | "looked";
  readonly found: readonly string[];
  readonly missing: readonly string[];
  readonly problems: readonly string[];
}

export const FIND = "find-repositories";
/** Installations read in one turn, and pages of each: a request or two apiece. */
const INSTALLATIONS = 4;
const PAGES = 2;

/** `missing` are ids on the allow-list whose gates do not know their repository's name. */
export async function findRepositories(missing: readonly string[], ports: FindPorts): Promise<FindStatus> {
  const nothing = { found: [], missing, problems: [] };
  if (missing.length === 0) return { ...nothing, kind: "none-missing" };
  const turn = await ports.turns.take(FIND, ports.everyMs);
  if (!turn.due) return { ...nothing, kind: "not-due" };
  const listed = await ports.github.listInstallations();
  if (!listed.ok) {
    return { ...nothing, kind: "no-list", problems: [`The App's installations: ${describeFailure(listed.error)}.`] };
  }
  const wanted = new Set(missing);
  const problems: string[] = [];
  const found: string[] = [];
  const { turnOf, left } = nextOf(listed.value.items, turn.memory);
  let last = turn.memory ?? "";
  for (const installation of turnOf) {
    last = installation.id;
    const repositories = await ports.github.listInstallationRepositories(installation.id, PAGES);
    if (!repositories.ok) {
      problems.push(`Installation ${installation.id}: ${describeFailure(repositories.error)}.`);
      continue;
    }
    for (const repository of repositories.value.items) {
      if (!wanted.has(repository.id)) continue;
      try {
        await ports.introduce(repository, installation.id);
        wanted.delete(repository.id);
        found.push(repository.id);
      } catch (error) {
        problems.push(`The gate of repository ${repository.id} was not told its name: ${messageOf(error)}.`);
      }
    }
    if (wanted.size === 0) break;
  }
  await ports.turns.keep(FIND, last, left > 0 && wanted.size > 0);
  return { kind: "looked", found, missing: [...wanted], problems };
}

/** The next installations behind `cursor` in the order of their ids; from the front when the end is reached. */
function nextOf(all: readonly Installation[], cursor: string | null) {
  const usable = all
    .filter((one) => !one.suspended)
    .toSorted((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : BigInt(a.id) > BigInt(b.id) ? 1 : 0));
  const after = cursor === null || cursor === "" ? 0 : usable.findIndex((one) => BigInt(one.id) > BigInt(cursor));
  const start = Math.max(0, after);
  return {
    turnOf: usable.slice(start, start + INSTALLATIONS),
    left: Math.max(0, usable.length - start - INSTALLATIONS),
  };
}
