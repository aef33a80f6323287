/**
 * `GET /healthz`: green, or red with every reason in words. Public, so it tells nothing that is secret, and nothing about
 * repositories.
 */
import type { Millis } from "../shared/ports.ts";
import type { AppPorts } from "./ports.ts";

/** Cron runs every minute; after this long without a tick nobody reaps. */
export const CRON_SILENCE_MS = 300_000;

export interface Health {
  readonly ok: boolean;
  readonly at: Millis;
  readonly deployment: string | null;
  /** Reasons why this deployment does not work. Empty when `ok`. */
  readonly problems: readonly string[];
  /** What a person should look at; does not make it red. */
  readonly warnings: readonly string[];
  readonly cron: { readonly lastTickAt: Millis | null };
  /** Deliveries that were ignored or refused, by reason, since this isolate began. */
  readonly tallies: Readonly<Record<string, number>>;
  readonly talliesSince: Millis;
}

export async function checkHealth(ports: AppPorts): Promise<Health> {
  const now = ports.clock.now();
  const problems: string[] = [];
  const warnings: string[] = [];
  if (ports.settings.ok) {
    const { appPrivateKey, publicUrl, allowedRepositories } = ports.settings.value;
    const key = await ports.checkKey(appPrivateKey);
    if (!key.ok) problems.push(key.error.message);
    if (publicUrl === "") {
      problems.push("PUBLIC_URL is empty: set it to this Worker's address, pods cannot report back without it.");
    }
    if (allowedRepositories.size === 0) {
      problems.push("GITHUB_ALLOWED_REPOSITORIES is empty: list the ids of the repositories to serve.");
    }
  } else {
    problems.push(...ports.settings.error);
  }
  const board = await ports.board.read();
  const lastTickAt = board.ok ? (board.value?.at ?? null) : null;
  if (!board.ok) warnings.push(`${board.error.message}.`);
  else if (board.value === null) warnings.push("Cron has not run yet in this deployment.");
  else {
    const silence = now - board.value.at;
    if (silence > CRON_SILENCE_MS) {
      problems.push(`Cron was last seen ${Math.round(silence / 1000)} seconds ago: nothing is reaped or reconciled.`);
    }
    for (const duty of board.value.duties) {
      if (!duty.ok) warnings.push(`Cron's duty "${duty.name}" failed at the last tick: ${duty.what}`);
    }
  }
  return {
    ok: problems.length === 0,
    at: now,
    deployment: ports.settings.ok ? ports.settings.value.deployment : null,
    problems,
    warnings,
    cron: { lastTickAt },
    tallies: ports.tallies.all(),
    talliesSince: ports.tallies.since,
  };
}
