/** Records of kept pods in a sweep: asked for side by side, and no gate is waited for twice. */
import { expect, it } from "vitest";
import { KeptPods } from "../../cron/kept-pods.ts";
import type { CronPorts } from "../../cron/ports.ts";
import { reap } from "../../cron/reap.ts";
import { DEFAULT_REAP_LIMITS } from "../../shared/lifecycle/reap.ts";
import { parsePod } from "../../shared/runpod/pod.ts";
import { ownershipTags, podName } from "../../shared/runpod/tags.ts";

const T0 = Date.UTC(2026, 10, 30, 12);
const HOUR = 3_600_000;

/** A sweep three hours on over pods that were asked to be kept, one of each of these repositories. */
function sweepOf(repositories: readonly string[], retentionOf: (id: string) => Promise<unknown>) {
  const now = T0 + 2.5 * HOUR;
  const pods = repositories.map((repositoryId) => {
    const tags = {
      deployment: "testing",
      repositoryId,
      requestId: "r1",
      attemptId: "r1-1",
      runId: "9",
      keep: "true",
    };
    const createdAt = new Date(T0).toISOString();
    const id = `p${repositoryId}`;
    const parsed = parsePod({ id, name: podName(tags), status: "RUNNING", createdAt, env: ownershipTags(tags) });
    if (!parsed.ok) throw new Error(parsed.what);
    return parsed.pod;
  });
  const deleted: string[] = [];
  const ports = {
    deployment: "testing",
    allowedRepositories: new Set(repositories),
    limits: DEFAULT_REAP_LIMITS,
    clock: { now: () => now },
    log: () => undefined,
    gate: (id: string) => ({
      podStandings: () => Promise.resolve([{ kind: "current", since: T0, retained: true }]),
      podsRemoved: () => Promise.resolve([]),
      retentionOf: () => retentionOf(id),
    }),
    account: {
      listPods: () => Promise.resolve({ ok: true, value: { startedAt: now, complete: true, pods } }),
      beginSweep: () => Promise.resolve({ kind: "go", observations: {} }),
      owe: () => Promise.resolve(true),
      endSweep: () => Promise.resolve([]),
    },
    runpod: { deletePod: (id: string) => (deleted.push(id), Promise.resolve({ kind: "deleted" })) },
  } as unknown as CronPorts;
  return { swept: reap(ports, []), deleted };
}

it("are asked for all at once: each answers only when all have been asked", async () => {
  const asked: string[] = [];
  let all: () => void = () => undefined;
  const everybody = new Promise<void>((resolve) => (all = resolve));
  const { swept, deleted } = sweepOf(["1", "2", "3", "4"], async (id) => {
    asked.push(id);
    if (asked.length === 4) all();
    await everybody;
    if (id === "3") throw new Error("no answer in 10 s");
    return { until: id === "2" ? T0 + 3 * HOUR : T0 + 2 * HOUR };
  });
  expect((await swept).kind).toBe("swept");
  expect(asked).toEqual(["1", "2", "3", "4"]);
  // The record that has time left spares its pod; one that cannot be read spares none at the backstop.
  expect(deleted).toEqual(["p1", "p3", "p4"]);
});

it("of a gate that did not tell are not asked for again in this sweep; one that told is asked again for news", async () => {
  let now = T0;
  const asked: string[] = [];
  const gate = (id: string) => ({
    retentionOf: (podId: string) => {
      asked.push(podId);
      return id === "1" ? Promise.reject(new Error("hangs")) : Promise.resolve({ until: now });
    },
  });
  const kept = new KeptPods({ clock: { now: () => now }, gate } as unknown as CronPorts);
  const unreadable = { kind: "unreadable", what: "its retention record could not be read: hangs" };
  expect(await kept.recordOf({ podId: "a", repositoryId: "1" })).toEqual(unreadable);
  expect(await kept.recordOf({ podId: "b", repositoryId: "1" })).toEqual(unreadable);
  expect(await kept.recordOf({ podId: "c", repositoryId: "2" })).toEqual({ kind: "until", until: T0 });
  await kept.recordOf({ podId: "c", repositoryId: "2" });
  expect(asked).toEqual(["a", "c"]);
  now += 20_000;
  expect(await kept.recordOf({ podId: "c", repositoryId: "2" })).toEqual({ kind: "until", until: now });
  expect(await kept.recordOf({ podId: "a", repositoryId: "1" })).toEqual(unreadable);
  expect(asked).toEqual(["a", "c", "c"]);
});

it("that was told before its gate fell silent about another pod still counts", async () => {
  let now = T0;
  const gate = () => ({
    retentionOf: (podId: string) =>
      podId === "a" ? Promise.reject(new Error("hangs")) : Promise.resolve({ until: T0 + HOUR }),
  });
  const kept = new KeptPods({ clock: { now: () => now }, gate } as unknown as CronPorts);
  const [silent, told] = await Promise.all(["a", "b"].map((podId) => kept.recordOf({ podId, repositoryId: "1" })));
  expect([silent?.kind, told?.kind]).toEqual(["unreadable", "until"]);
  now += 30_000;
  expect(await kept.recordOf({ podId: "b", repositoryId: "1" })).toEqual({ kind: "until", until: T0 + HOUR });
  expect(await kept.recordOf({ podId: "c", repositoryId: "1" })).toMatchObject({ kind: "unreadable" });
});
