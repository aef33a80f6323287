/**
 * A sample of the crash matrix (`npm run crash-matrix` plays all of it): the Worker in workerd is killed with SIGKILL where
 * it costs most, comes back on its stored state, and the life ends as if nothing had happened.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allPoints } from "../long/crash-points.ts";
import { CrashWorld, nameOf } from "../long/crash-world.ts";

let world: CrashWorld;

beforeAll(async () => {
  world = await CrashWorld.start();
}, 120_000);

afterAll(async () => {
  await world.close();
});

/** Where each kill must hit: in the second life the first one's checks are still being closed, which is no place for it. */
const SAMPLE = [
  [
    ["after mint", "POST /actions/runners/generate-jitconfig"],
    ["after create-pod", "POST /v2/pods"],
    ["after delete-pod", "DELETE /v2/pods/POD"],
  ],
  [
    ["before create-pod", "POST /v2/pods"],
    ["before delete-pod", "DELETE /v2/pods/POD"],
    ["before lane check", "PATCH /check-runs/CHECK"],
  ],
] as const;

describe("killed with SIGKILL", () => {
  const lives = SAMPLE.map((wanted) => ({ name: wanted.map(([point]) => point).join(", "), wanted }));

  it.each(lives)("$name: same verdict, every pod proven gone, one ledger line each", async ({ wanted }) => {
    const points = allPoints().filter((one) => wanted.some(([name]) => name === nameOf(one)));
    expect(points).toHaveLength(3);
    const seen = new Set(world.runpod.pods().map((pod) => pod.id));
    const { kills, problems, lost } = await world.live(points);
    const rented = world.runpod.pods().flatMap((pod) => (seen.has(pod.id) ? [] : [pod.id]));
    const checks = world.checksOfLife().map((check) => String(check.id));
    const plain = (call: string): string => {
      const [id = ""] = call.split("/").slice(-1);
      if (rented.includes(id)) return call.replace(id, "POD");
      return checks.includes(id) ? call.replace(id, "CHECK") : call;
    };
    expect([problems, lost]).toEqual([[], null]);
    expect(kills.map(({ point, call }) => [point, plain(call)])).toEqual(wanted.map((one) => [...one]));
  });

  it("leaves no secret in the Worker's log or in what its objects have stored", () => {
    expect(world.logged).toBeGreaterThan(0);
    expect(world.leaks()).toEqual([]);
  });
});
