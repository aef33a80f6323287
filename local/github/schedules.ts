/**
 * Scheduled workflows: every minute of the local world's clock, the files on each default branch are asked whether it is
 * theirs.
 *
 * Only the default branch's files count, and only active workflows. A clock that leaps over several fitting minutes starts
 * a schedule once: GitHub does not catch up either. Source: GitHub's documentation of `on.schedule`.
 */
import type { Millis } from "../../shared/ports.ts";
import { fits, parseCron } from "../workflow/cron.ts";
import type { Hub } from "./hub.ts";
import type { Repository } from "./model.ts";

const MINUTE: Millis = 60_000;
/** Of real time, between two looks at the clock. */
const LOOK_MS: Millis = 1_000;
/** The longest leap whose minutes are looked at one by one. */
const MAX_MINUTES = 7 * 24 * 60;

export class Schedules {
  readonly #hub: () => Hub;
  /** The last minute that was looked at, counted from 1970. */
  #minute: number | null = null;

  constructor(hub: () => Hub) {
    this.#hub = hub;
  }

  /** Looks at the clock from now on. */
  start(): void {
    const hub = this.#hub();
    this.#minute = Math.floor(hub.world.clock.now() / MINUTE);
    const again = (): void => {
      this.look();
      hub.timers.after(LOOK_MS, again);
    };
    hub.timers.after(LOOK_MS, again);
  }

  /** Starts what fits a minute since the last look. Gives the runs' ids. */
  look(): readonly number[] {
    const hub = this.#hub();
    const minute = Math.floor(hub.world.clock.now() / MINUTE);
    const from = Math.max((this.#minute ?? minute) + 1, minute - MAX_MINUTES + 1);
    this.#minute = Math.max(minute, this.#minute ?? minute);
    if (from > minute) return [];
    const minutes = Array.from({ length: minute - from + 1 }, (_unused, index) => (from + index) * MINUTE);
    return [...hub.world.repositories.values()].flatMap((repository) => this.#startIn(repository, minutes));
  }

  #startIn(repository: Repository, minutes: readonly Millis[]): readonly number[] {
    const { catalog } = this.#hub().engine;
    const ref = `refs/heads/${repository.defaultBranch}`;
    const sha = repository.refs.get(ref);
    if (repository.deleted || repository.archived || repository.fork !== null || sha === undefined) return [];
    return catalog.schedules(repository).flatMap(({ path, crons }) =>
      crons.flatMap((cron) => {
        const parsed = parseCron(cron);
        if (!parsed.ok || !minutes.some((at) => fits(parsed.value, at))) return [];
        const run = this.#hub().engine.create({
          repository,
          headRepository: repository,
          path,
          event: "schedule",
          headBranch: repository.defaultBranch,
          headSha: sha,
          sha,
          ref,
          actor: repository.owner,
          payload: { schedule: cron },
        });
        return [run.id];
      }),
    );
  }
}
