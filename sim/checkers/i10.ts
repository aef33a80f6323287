/**
 * I10: a duplicate, late, reordered or lost webhook changes nothing but the time of the outcome. So a head has one request,
 * and one more for each time a person asked again; never two that are open. One that only found its head superseded does not
 * count: a head may come back, so a late word about it is looked into, buys nothing and ends the same way. Nor does one that
 * gave up waiting for its trigger, which may still start, or for the word of who caused it, nor one that ended because the App had no place here,
 * or a
 * fork's that was turned down while the configuration could not be read or GitHub was silent.
 * An answer that is given back asks nobody and ends in the step that opens it: it does not count either, but there is no more
 * than one of these for each request that it can have been given back from under, and for each coming and going at the head.
 */
import type { GateHost } from "../hosts.ts";
import type { Checker } from "../view.ts";

/**
 * Requests that ended because their pull request could not be found, which it cannot while the App has no place here; and
 * those that ended with one of several pull requests at a head, or before their head came back.
 */
function vanished(host: GateHost, { head_sha, kind }: Row): number {
  const closed = host.sql.exec<{ at: number }>(
    "SELECT concluded_at AS at FROM requests WHERE head_sha = ? AND kind = ? AND json_extract(record, '$.state.verdict.kind') = 'closed'",
    head_sha,
    kind,
  );
  // What closed with one of two pull requests leaves the other without an answer: it is looked at once more (seed 8037).
  if (host.repository.sharedHeads.has(head_sha)) return closed.length;
  const back = host.repository.returns.get(head_sha) ?? -Infinity;
  return closed.filter(
    ({ at }) =>
      // It was closed at the time; the head came back since, and the pull request is open (seed 11272).
      at <= back ||
      host.repository.silences.some(
        (one) => one.from <= at && (one.until === null || at <= one.until + SILENCE_SLACK_MS),
      ),
  ).length;
}

/** What people did that may have put another's word on top: pull requests that came to the head, and what became of them. */
function coming({ repository }: GateHost, headSha: string): number {
  const there = [...(repository.visitors.get(headSha) ?? [])];
  const changes = there.map((prNumber) => 1 + (repository.pulls.get(prNumber)?.changes.length ?? 0));
  return (repository.asks.get(headSha) ?? 0) + changes.reduce((sum, count) => sum + count, 0);
}

/** A conclusion follows the reading it rests on by the steps of a removal. */
const SILENCE_SLACK_MS = 60_000;

type Row = { head_sha: string; kind: string; n: number; open: number; bases: number; given: number; rest: number };

/** Ended in the step that opened it. */
const GIVEN = "coalesce(json_extract(record, '$.state.at'), -1) = json_extract(record, '$.openedAt')";

/** A fork's that was turned down while the configuration could not be read or GitHub was silent. */
const UNREAD =
  "(coalesce(json_extract(record, '$.state.verdict.reason'), '') IN ('configuration-invalid', 'configuration-missing', 'github-outage') AND coalesce(json_extract(record, '$.prNumber'), 0) IN (SELECT value FROM json_each(?)))";

function forksOf({ repository }: GateHost): readonly number[] {
  return [...repository.pulls.values()].flatMap(({ number, headRepositoryId }) =>
    headRepositoryId === repository.id ? [] : [number],
  );
}

export function i10(): Checker {
  const looked = new Map<string, number>();
  const writes = new Map<string, number>();
  return {
    name: "I10",
    step(world) {
      for (const host of world.hosts) {
        const written = host.writesTo("requests");
        if (writes.get(host.repository.id) === written) continue;
        writes.set(host.repository.id, written);
        const count = host.sql.exec<{ n: number }>("SELECT count(*) AS n FROM requests")[0]?.n ?? 0;
        if (looked.get(host.repository.id) === count) continue;
        looked.set(host.repository.id, count);
        const rows = host.sql.exec<Row>(
          `SELECT head_sha, kind, sum(NOT (${GIVEN}) AND coalesce(json_extract(record, '$.state.verdict.kind'), '') NOT IN ('superseded') AND coalesce(json_extract(record, '$.state.verdict.reason'), '') NOT IN ('app-removed', 'repository-gone', 'trigger-not-started', 'actor-unknown') AND NOT ${UNREAD} AND NOT (coalesce(json_extract(record, '$.state.verdict.reason'), '') = 'actor-not-permitted' AND json_extract(record, '$.openedBy.row') = 1 AND json_extract(record, '$.openedBy.actor') IS NULL)) AS n, sum(state <> 'concluded') AS open, count(DISTINCT coalesce(json_extract(record, '$.admission.baseRef'), json_extract(record, '$.baseRef'))) AS bases, sum(${GIVEN}) AS given, sum(NOT (${GIVEN})) AS rest FROM requests GROUP BY head_sha, kind`,
          JSON.stringify(forksOf(host)),
        );
        for (const row of rows) {
          if (row.open > 1) return `${row.head_sha.slice(0, 8)} has ${row.open} open requests`;
          if (row.given > row.rest + coming(host, row.head_sha))
            return `${row.head_sha.slice(0, 8)} was given its answer back ${row.given} times over ${row.rest} requests`;
          // Another base is another change, whoever told of it, and however late.
          const asked = (host.repository.asks.get(row.head_sha) ?? 0) + Math.max(0, row.bases - 1);
          if (row.n > 1 + asked && row.n > 1 + asked + vanished(host, row))
            return `${row.head_sha.slice(0, 8)} has ${row.n} requests, and was asked for again ${asked} times`;
        }
      }
      return null;
    },
  };
}
