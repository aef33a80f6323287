/** A fault of our own that stays: a request without a pod must not leave its check hanging (I7). */
import { expect, it } from "vitest";
import { Gate } from "../../durable-objects/gate/gate.ts";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { err, ok } from "../../shared/result.ts";
import { nodeSql } from "../support/node-sql.ts";

const HEAD = "a".repeat(40);

it("ends a request whose task throws for an hour, with a concluded check that says so", async () => {
  let now = Date.UTC(2026, 10, 30);
  const conclusions: unknown[] = [];
  const answers: Partial<Record<keyof GitHubClient, (...args: never[]) => unknown>> = {
    getRepository: () => {
      throw new Error("a fault of ours");
    },
    createCheckRun: () => Promise.resolve(ok({ id: "7" })),
    updateCheckRun: (_id: string, change: { readonly state?: unknown }) => {
      conclusions.push(change.state);
      return Promise.resolve(ok({ id: "7" }));
    },
    listOpenPulls: () => Promise.resolve(err({ reason: "server", status: 500 })),
  };
  const ports = {
    sql: nodeSql(),
    alarm: { set: () => undefined },
    clock: { now: () => now },
    random: { next: () => 0.5, bytes: (length: number) => new Uint8Array(length) },
    github: () => answers,
    publicUrl: "",
    deployment: "test",
    appId: "1",
    log: () => undefined,
  } as unknown as GatePorts;
  const gate = new Gate(ports);
  gate.accept({
    guid: "g1",
    event: "pull_request",
    repository: { id: "101", owner: "acme", name: "tensors" },
    installationId: "77",
    signal: {
      kind: "pull-request",
      action: "opened",
      prNumber: 7,
      headSha: HEAD,
      headRepositoryId: "101",
      draft: false,
      label: null,
      sender: { id: "11", login: "mira" },
    },
  });
  const state = () => gate.store.requestsOfHead(HEAD, "pull-request").at(-1)?.state;
  for (let minute = 0; minute < 90 && state()?.kind !== "concluded"; minute += 1) {
    await gate.run();
    now += 60_000;
  }
  expect(state()).toMatchObject({ kind: "concluded", verdict: { kind: "infrastructure", reason: "internal-error" } });
  await gate.run();
  expect(conclusions.at(-1)).toMatchObject({ status: "completed", conclusion: "failure" });
});
