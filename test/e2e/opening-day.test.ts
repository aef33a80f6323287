/**
 * The main job, end to end, on one command: the opening day against the local world, in workerd, over real HTTP.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startCommand, verdictsOf, worldProcesses } from "./command.ts";

const WORLDS = join(import.meta.dirname, "..", "..", ".local-world");

describe("npm start -- --once", () => {
  it("ends 0 with every verdict as expected, the same when the Worker is killed in mid-run, and leaves nothing behind", async () => {
    const plain = startCommand(["--once"]);
    expect(await plain.ended, plain.output()).toBe(0);
    const crashed = startCommand(["--once", "--crash-worker"]);
    expect(await crashed.ended, crashed.output()).toBe(0);
    expect(crashed.output()).toContain("killed with SIGKILL");
    expect(verdictsOf(crashed.output())).toEqual(verdictsOf(plain.output()));
    expect(verdictsOf(plain.output())).toHaveLength(9);
    expect(worldProcesses()).toEqual([]);
    expect(existsSync(WORLDS) ? readdirSync(WORLDS) : []).toEqual([]);
  });

  it("leaves nothing behind when it is killed in mid-run and started again", async () => {
    const first = startCommand(["--once"]);
    await first.said("GPU tests are running");
    first.child.kill("SIGKILL");
    await first.ended;
    const second = startCommand(["--once"]);
    expect(await second.ended, second.output()).toBe(0);
    expect(worldProcesses()).toEqual([]);
    expect(existsSync(WORLDS) ? readdirSync(WORLDS) : []).toEqual([]);
  });
});
