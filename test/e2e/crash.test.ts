/**
 * A sample of the crash matrix (`npm run crash-matrix` plays all of it): the Worker in workerd is killed with SIGKILL where
 * it costs most, comes back on its stored state, and the life ends as if nothing had happened.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildBundle } from "../../local/world/world.ts";
import { allPoints } from "../long/crash-points.ts";
import { CrashWorld } from "../long/crash-world.ts";

let world: CrashWorld;

beforeAll(async () => {
  world = await CrashWorld.start(await buildBundle());
}, 120_000);

afterAll(async () => {
  await world.close();
});

const SAMPLE = [
  ["after mint", "after create-pod", "after delete-pod"],
  ["before create-pod", "before delete-pod", "before lane check"],
] as const;

describe("killed with SIGKILL", () => {
  it.each(SAMPLE)("%s, %s and %s: same verdict, every pod proven gone, one ledger line each", async (...names) => {
    const points = allPoints().filter((one) => (names as readonly string[]).includes(`${one.side} ${one.name}`));
    expect(points).toHaveLength(3);
    const { crashes, problems } = await world.live(points);
    expect([crashes, problems]).toEqual([3, []]);
  });

  it("leaves no secret in the Worker's log or in what its objects have stored", () => {
    expect(world.logged).toBeGreaterThan(0);
    expect(world.leaks()).toEqual([]);
  });
});
