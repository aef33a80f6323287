/**
 * N49: what GitHub could not deliver is asked for again. Once all is quiet, an event whose attempts were all in vain has been asked
 * for since the last of them, unless it is too new, or too old for GitHub.
 */
import type { Millis } from "../../shared/ports.ts";
import type { HookAttempt } from "../hook-book.ts";
import type { Checker, WorldView } from "../view.ts";

/** The longest pause between two turns at the list, the pauses before it, and a margin. */
const TOO_NEW_MS = 3_600_000;
/** From one tick to the next, with one that was lost between them. */
const BETWEEN_MS = 180_000;
const KEPT_MS: Millis = 3 * 86_400_000;

export function n49(): Checker {
  return { name: "N49", owed: problem, end: problem };
}

function problem({ now, github, hosts }: WorldView): string | null {
  // An hour's deliveries are asked for over many ticks, the oldest first.
  if (now - github.options.book.askedAt < BETWEEN_MS) return null;
  const settled = new Set<string>();
  const tries = new Map<string, HookAttempt[]>();
  for (const attempt of github.options.book.attempts) {
    if (attempt.status === "OK") settled.add(attempt.guid);
    tries.set(attempt.guid, [...(tries.get(attempt.guid) ?? []), attempt]);
  }
  for (const [guid, attempts] of tries) {
    const [first] = attempts;
    const last = attempts.at(-1);
    if (first === undefined || last === undefined || settled.has(guid) || now - first.at > KEPT_MS) continue;
    const host = hosts.find(({ repository }) => repository.id === first.repositoryId);
    // A gate that found a newer database takes nothing until the next version is deployed.
    if (host === undefined || !host.up || host.gate.readOnly) continue;
    if (attempts.length === 1 && now - last.at > TOO_NEW_MS)
      return `${first.event} ${guid} was not delivered ${Math.round((now - last.at) / 1000)} s ago, and nobody asked for it again`;
  }
  return null;
}
