/** An attempt of our run that somebody else started waits for the pod's removal: patiently, and at no cost to GitHub. */
import { expect, it } from "vitest";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { beginUninvited, endUninvited } from "../../durable-objects/gate/uninvited.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { requestIn, states } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

it("looks again after pauses that grow to a minute, for ever, and asks GitHub nothing meanwhile", async () => {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  const request = requestIn(states.executing());
  store.saveRequest(request);
  const runId = request.state.kind === "executing" ? (request.state.attempt.run?.runId ?? "") : "";
  const asked: string[] = [];
  const github = new Proxy({}, { get: (_own, name) => () => asked.push(String(name)) }) as GitHubClient;
  let now = 1_000_000;
  expect(
    beginUninvited(store, request.id, { runId, attempt: 2, status: "in_progress", actor: null } as never, now),
  ).toBe(true);
  const pauses: number[] = [];
  for (let look = 0; look < 50; look += 1) {
    const task = store.taskOf("rerun", runId);
    if (task === null) throw new Error("the wait must not end by itself");
    now = task.dueAt;
    store.startTask(task.id, now);
    const hands = { audit: () => undefined, again: () => undefined, transaction: <T>(body: () => T) => body() };
    await endUninvited({ ...task, tries: task.tries + 1 }, store, github, () => now, hands);
    pauses.push((store.taskOf("rerun", runId)?.dueAt ?? now) - now);
  }
  expect(pauses.slice(0, 7)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
  expect(new Set(pauses.slice(6))).toEqual(new Set([60_000]));
  // A wait is no try at GitHub: those are counted, and end.
  expect(store.taskOf("rerun", runId)?.tries).toBe(0);
  expect(asked).toEqual([]);
});
