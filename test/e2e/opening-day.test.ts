/**
 * The main job, end to end, on one command: the opening day against the local world, in workerd, over real HTTP.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MARK } from "../../local/minted.ts";
import { startCommand, verdictsOf, worldProcesses } from "./command.ts";

const WORLDS = join(import.meta.dirname, "..", "..", ".local-world");

function left(): { readonly processes: readonly number[]; readonly worlds: readonly string[] } {
  return { processes: worldProcesses(), worlds: existsSync(WORLDS) ? readdirSync(WORLDS) : [] };
}

const NOTHING = { processes: [], worlds: [] };

describe("npm start -- --once", () => {
  it("ends 0 with every verdict as expected after an earlier one was killed in mid-run, and the same when the Worker is", async () => {
    const killed = startCommand(["--once"]);
    await killed.said("GPU tests are running");
    killed.child.kill("SIGKILL");
    await killed.ended;

    const plain = startCommand(["--once"]);
    expect(await plain.ended, plain.output()).toBe(0);
    expect(verdictsOf(plain.output())).toHaveLength(9);
    expect(left()).toEqual(NOTHING);

    const crashed = startCommand(["--once", "--crash-worker"]);
    expect(await crashed.ended, crashed.output()).toBe(0);
    expect(crashed.output()).toContain("killed with SIGKILL");
    expect(verdictsOf(crashed.output())).toEqual(verdictsOf(plain.output()));
    expect(left()).toEqual(NOTHING);
    for (const run of [killed, plain, crashed]) expect(run.output()).not.toContain(MARK);
  });
});
