/** Who speaks for a commit that is the head of several: a merge group before any pull request, one that is ready before a draft. */
import { expect, it } from "vitest";
import { Aggregates, MERGE_GROUP } from "../../durable-objects/gate/aggregates.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { configFrom } from "../../shared/config/load.ts";
import { nodeSql } from "../support/node-sql.ts";

const HEAD = "a".repeat(40);

/** The head, opened by these in turn; `true`: the last look before the second one saw a draft. */
function speaker(first: number, wasDraft: boolean, second: number): { speaks: number | undefined; looks: boolean } {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  store.rememberConfig("hash", configFrom({ required_checks: [{ name: "Docs" }], aggregator: { name: "All checks" } }));
  store.setMeta("last_config", "hash");
  const aggregates = new Aggregates(sql, store);
  aggregates.open(HEAD, first, 1_000);
  const row = aggregates.row(HEAD);
  if (row === null) throw new Error("the head is known");
  aggregates.save(HEAD, true, { ...row.record, round: { ...row.record.round, draft: wasDraft } });
  const task = store.taskOf("aggregate", HEAD);
  if (task !== null) store.removeTask(task.id);
  aggregates.open(HEAD, second, 2_000);
  return { speaks: aggregates.row(HEAD)?.prNumber, looks: store.taskOf("aggregate", HEAD) !== null };
}

it.each([
  ["a ready one stays", 1, false, 2, 1],
  ["a draft gives way", 1, true, 2, 2],
  ["a group takes over from one that is ready", 1, false, MERGE_GROUP, MERGE_GROUP],
  ["a group takes over from a draft", 1, true, MERGE_GROUP, MERGE_GROUP],
  ["a group stays", MERGE_GROUP, false, 2, MERGE_GROUP],
  ["a group stays that took over from a draft, and was not looked at since", MERGE_GROUP, true, 2, MERGE_GROUP],
])("%s", (_what, first, wasDraft, second, speaks) => {
  expect(speaker(first, wasDraft, second)).toEqual({ speaks, looks: speaks !== first });
});
