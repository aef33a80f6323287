/** `POST /v1/sweep`: from outside, cron's work is done once when cron is dead, and never otherwise. */
import { describe, expect, it } from "vitest";
import type { Board } from "../../durable-objects/board-client.ts";
import { err, ok } from "../../shared/result.ts";
import { STALE_MS, type SweepPorts } from "../../worker/workflow-sweep.ts";
import { claims, NOW, openBench, READ_ONLY, runOf, sign, type Bench } from "./harness.ts";

const BOARD: Board = { at: NOW, tookMs: 5, gates: [], moreGates: 0, pods: null, duties: [], problems: [] };
const DUTIES = [{ name: "reap", ok: true, ms: 3, what: "0 own pods of 2 seen" }];

/** A bench whose cron last ticked so long ago (null: never; "lost": its board cannot be read), and its ticks since. */
function opened(ageMs: number | null | "lost", event = "schedule"): { bench: Bench; ticks: () => number } {
  let ticks = 0;
  const sweep: SweepPorts = {
    board: async () =>
      ageMs === "lost" ? err({ message: "gone" }) : ok(ageMs === null ? null : { ...BOARD, at: NOW - ageMs }),
    tick: async () => {
      ticks += 1;
      return { wake: null, reap: null, duties: DUTIES };
    },
  };
  return { bench: openBench({ sweep, run: runOf({ event }) }), ticks: () => ticks };
}

const token = (more: Parameters<typeof claims>[0] = {}): string =>
  sign(claims({ aud: READ_ONLY, event_name: "schedule", ...more }));

describe("POST /v1/sweep", () => {
  it.each([
    ["was never there", null],
    ["has been silent for three minutes", STALE_MS],
    ["cannot be asked about", "lost"],
  ] as const)("does cron's duties when cron %s", async (_what, age) => {
    const { bench, ticks } = opened(age);
    const answer = await bench.call("/v1/sweep", token(), {});
    expect([answer.status, ticks()]).toEqual([200, 1]);
    expect(await answer.json()).toMatchObject({ swept: true, duties: [{ name: "reap", ok: true, ms: 3 }] });
    expect(bench.log).toMatchObject([{ event: "workflow-api.swept", run: "7001" }]);
  });

  it("does nothing while cron is alive, and says when it was", async () => {
    const { bench, ticks } = opened(STALE_MS - 1_000);
    const answer = await bench.call("/v1/sweep", token(), {});
    expect([answer.status, ticks()]).toEqual([200, 0]);
    expect(await answer.json()).toMatchObject({ swept: false, message: "Cron is alive: its last tick was 179 s ago." });
  });

  it.each([
    ["another branch", { ref: "refs/heads/feature" }, "schedule", 403],
    ["a tag that is called main", { ref: "refs/tags/main", ref_type: "tag" }, "schedule", 403],
    ["a push", { event_name: "push" }, "push", 403],
    ["a fork's pull request", { event_name: "pull_request_target" }, "pull_request_target", 403],
    ["a token for opening requests", { aud: "https://gate.test" }, "schedule", 401],
    ["another repository", { repository_id: "999" }, "schedule", 403],
  ] as const)("is refused to %s", async (_what, more, event, status) => {
    const { bench, ticks } = opened(null, event);
    const answer = await bench.call("/v1/sweep", token(more), {});
    expect([answer.status, ticks()]).toEqual([status, 0]);
  });

  it("goes on when whoever asked has hung up: the platform holds all of the work, and its end", async () => {
    const gate = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const done: string[] = [];
    const sweep: SweepPorts = {
      board: async () => ok(null),
      tick: async () => {
        begun.resolve();
        await gate.promise;
        done.push("ticked");
        return { wake: null, reap: null, duties: DUTIES };
      },
    };
    const bench = openBench({ sweep, run: runOf({ event: "schedule" }) });
    // Nobody waits for this answer: all that is left is what the platform was told to go on with.
    const nobodys = bench.call("/v1/sweep", token(), {});
    await begun.promise;
    expect(bench.goingOn).toHaveLength(1);
    const held = Promise.all(bench.goingOn).then(() => done.push("held to the end"));
    gate.resolve();
    await held;
    expect(done).toEqual(["ticked", "held to the end"]);
    expect(bench.log).toMatchObject([{ event: "workflow-api.swept" }]);
    expect((await nobodys).status).toBe(200);
  });

  it("has nothing to go on with for a caller who is refused", async () => {
    const { bench } = opened(null);
    await bench.call("/v1/sweep", token({ ref: "refs/heads/feature" }), {});
    expect(bench.goingOn).toEqual([]);
  });

  it("takes a token once", async () => {
    const { bench, ticks } = opened(null);
    const once = token();
    await bench.call("/v1/sweep", once, {});
    expect((await bench.call("/v1/sweep", once, {})).status).toBe(401);
    expect(ticks()).toBe(1);
  });
});
