/**
 * The main job, end to end, on one command: the opening day against the local world, in workerd, over real HTTP.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, expect, it } from "vitest";
import { MARK } from "../../local/minted.ts";
import { main } from "../../cli/main.ts";
import { startCommand, verdictsOf, worldProcesses } from "./command.ts";

const WORLDS = join(import.meta.dirname, "..", "..", ".local-world");

/** What a command that has ended leaves; what is killed with it may take a moment to be gone on a busy machine. */
async function left(): Promise<{ readonly processes: readonly string[]; readonly worlds: readonly string[] }> {
  const limit = Date.now() + 10_000;
  for (;;) {
    const now = { processes: worldProcesses(), worlds: existsSync(WORLDS) ? readdirSync(WORLDS) : [] };
    if ((now.processes.length === 0 && now.worlds.length === 0) || Date.now() > limit) return now;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const NOTHING = { processes: [], worlds: [] };

describe("npm start -- --once", () => {
  it("ends 0 with every verdict as expected after an earlier one was killed in mid-run, and the same when the Worker is", async () => {
    const killed = startCommand(["--once"]);
    await killed.said("GPU tests are running");
    killed.child.kill("SIGKILL");
    await killed.ended;

    // Side by side: two worlds of one checkout keep out of each other's way.
    const plain = startCommand(["--once"]);
    const crashed = startCommand(["--once", "--crash-worker"]);
    expect(await plain.ended, plain.output()).toBe(0);
    expect(verdictsOf(plain.output())).toHaveLength(9);
    expect(await crashed.ended, crashed.output()).toBe(0);
    expect(crashed.output()).toContain("killed with SIGKILL");
    expect(verdictsOf(crashed.output())).toEqual(verdictsOf(plain.output()));
    expect(await left()).toEqual(NOTHING);
    for (const run of [killed, plain, crashed]) expect(run.output()).not.toContain(MARK);
  });
});

describe("npm start", () => {
  it("prints the address and the operator's token, which open the operator's commands, and keeps neither after its end", async () => {
    const stays = startCommand([]);
    await stays.said("npm run gpu-gate -- status");
    const hint = /export (GPU_GATE_URL=\S+) (GPU_GATE_OPERATOR_TOKEN=\S+)\n/.exec(stays.output());
    const env = Object.fromEntries((hint?.slice(1) ?? []).map((pair) => pair.split("=")));
    const said = await gpuGate(["pause"], env);
    expect(said).toMatchObject({ code: 0, text: expect.stringContaining("Buying is paused.") });
    const stranger = { ...env, GPU_GATE_OPERATOR_TOKEN: "local-operator-of-another-world-entirely" };
    expect(await gpuGate(["pause"], stranger)).toMatchObject({
      code: 1,
      text: expect.stringContaining("is not there"),
    });

    stays.child.kill("SIGINT");
    expect(await stays.ended, stays.output()).toBe(130);
    expect(await left()).toEqual(NOTHING);
    expect(await gpuGate(["pause"], env)).toMatchObject({ code: 1, text: expect.stringContaining("no answer") });
  });
});

async function gpuGate(args: readonly string[], env: Readonly<Record<string, string>>) {
  let text = "";
  const hear = (part: string) => void (text += part);
  const io = {
    stdout: hear,
    stderr: hear,
    stdin: async () => new Uint8Array(),
    env,
    cwd: process.cwd(),
    fetch,
    now: Date.now,
  };
  return { code: await main(args, io), text };
}
