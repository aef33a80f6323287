/** A check that could not be written is wanted again at every look; one that says all is not even worded again. */
import { expect, it } from "vitest";
import { Inside } from "../../durable-objects/gate/inside.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { fingerprint } from "../../durable-objects/gate/publish.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Steps } from "../../durable-objects/gate/steps.ts";
import { checkView } from "../../shared/lifecycle/check-view.ts";
import { known, MINUTE, PREPARE_RUN, PULL, requestIn, states, STOP, T0 } from "../lifecycle/fixtures.ts";
import { nodeSql } from "../support/node-sql.ts";

/** A request that waits for its preparation; each `look` finds the same. */
function waiting() {
  const clock = { at: T0, now: () => clock.at };
  const ports = {
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock,
    random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
    log: () => undefined,
  } as unknown as GatePorts;
  migrate(ports.sql);
  const inside = new Inside(ports);
  const steps = new Steps(inside);
  const { store } = inside;
  store.saveRequest(requestIn({ ...states.preparing("watch"), run: PREPARE_RUN }, { id: "r1" }));
  const ask = { kind: "observe", want: {} } as const;
  store.putTask("main", "r1", "observe", ask, T0, T0);
  const facts = { status: "in_progress", conclusion: null, url: "", failedJobs: [], artifacts: [] };
  const look = (): void => {
    clock.at += MINUTE;
    const task = store.taskOf("main", "r1");
    if (task === null) throw new Error("the request must wait for a look");
    const done = { task: "observe", outcome: { pull: known(PULL), prepareRun: known(facts) } } as const;
    const waits = steps.waitingFor(task);
    expect(waits?.task?.id).toBe(task.id);
    ports.sql.transaction(() =>
      store.finishing(task, () => void steps.apply("r1", { kind: "done", taskId: task.id, done })),
    );
  };
  /** Gives up whatever was to be written, as the publisher does when GitHub forbids it again and again. */
  const giveUp = (): boolean => {
    const task = store.taskOf("check", "r1");
    if (task !== null) store.removeTask(task.id);
    return task !== null;
  };
  return { store, steps, look, giveUp, inside };
}

it("is put again after it was given up, though nothing changed", () => {
  const { look, giveUp } = waiting();
  look();
  expect(giveUp()).toBe(true);
  look();
  expect(giveUp()).toBe(true);
  look();
  expect(giveUp()).toBe(true);
});

it("is not put where it says all, and is at once where it does not any more", () => {
  const { store, steps, look, giveUp, inside } = waiting();
  look();
  giveUp();
  const request = store.request("r1");
  if (request === null) throw new Error("the request must be there");
  const published = fingerprint(checkView(request, inside.queueInfo("r1")));
  store.saveRequest({ ...request, check: { ...request.check, published, checkRunId: "5" } });
  for (let times = 0; times < 3; times += 1) {
    look();
    expect(giveUp()).toBe(false);
  }
  steps.stop("r1", STOP);
  look();
  expect(giveUp()).toBe(true);
});
