import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { listen, parseJson, readBody } from "../../local/runpod/http.ts";
import { podStartArgs } from "../../pod/script.ts";
import { podProofSchema } from "../../shared/runpod/pod-words.ts";
import { podEnv } from "../pod/harness.ts";
import { API_KEY, bash, GPU, openWorld, pod, podList, T0, until } from "./harness.ts";
import type { SeenPod, World } from "./harness.ts";
import { leaksOnPurpose } from "../support/watch.ts";

// The stand-in runner says with what it was started.
leaksOnPurpose(/ in what bash prints$/);

let world: World;

beforeEach(async () => {
  world = await openWorld();
});

afterEach(async () => {
  await world.close();
});

const entry = (id: string) => world.runpod.pods().find((row) => row.id === id);
const lines = (id: string) => world.runpod.logs(id);

/** Says the word for which a container waits at its pipe `go`. */
function letGo(id: string): void {
  writeFileSync(join(world.folder, "state", "pods", id, "home", "runner", "go"), "\n");
}

async function look(id: string): Promise<SeenPod> {
  return pod(await world.call("GET", `/pods/${id}`));
}

/** Rents a pod and moves the clock to where its container runs. */
async function running(change: Readonly<Record<string, unknown>>): Promise<string> {
  const { id } = pod(await world.create(change));
  world.pass(1_000);
  await look(id);
  world.pass(1_000);
  await look(id);
  return id;
}

describe("a pod's life", () => {
  it("goes from PROVISIONING over STARTING to RUNNING by its own timers", async () => {
    const created = pod(await world.create({ args: bash("sleep 60") }));
    expect(created).toMatchObject({ status: "PROVISIONING", startedAt: null, runtime: null });
    world.pass(999);
    expect((await look(created.id)).status).toBe("PROVISIONING");
    world.pass(1);
    expect((await look(created.id)).status).toBe("STARTING");
    world.pass(1_000);
    const up = await look(created.id);
    expect(up).toMatchObject({ status: "RUNNING", startedAt: new Date(T0 + 2_000).toISOString() });
    world.pass(3_500);
    expect((await look(created.id)).runtime).toMatchObject({ uptime: 3 });
  });

  it("starts pods without being asked, by the real clock", async () => {
    const real = await openWorld({ now: Date.now, timing: { placeMs: 10, bootMs: 10 } });
    const { id } = pod(await real.create({ args: bash("echo up; sleep 60") }));
    await until(() => real.runpod.logs(id).includes("up"));
    expect(real.runpod.pods()[0]?.status).toBe("RUNNING");
    await real.close();
  });

  it("shows no data centre and no ssh proxy until the pod is placed", async () => {
    const { id } = pod(await world.create());
    expect(await look(id)).toMatchObject({ dataCenterId: null, cudaVersion: null, ssh: { proxy: null, direct: null } });
    world.pass(1_000);
    const placed = await look(id);
    expect(placed.dataCenterId).toMatch(/^[A-Z]{2}-/);
    expect(placed.ssh.proxy).not.toBeNull();
  });

  it("starts entry point and command from args as JSON, from arrays, or from words", async () => {
    const ways = [
      { args: JSON.stringify({ entrypoint: ["echo"], cmd: ["two words"] }) },
      { entrypoint: ["echo"], cmd: ["two words"] },
      { args: "echo two   words" },
    ];
    for (const way of ways) {
      const id = await running(way);
      await until(() => lines(id).includes("two words"));
    }
    expect(world.runpod.pods()).toHaveLength(ways.length);
  });

  it("starts the container with exactly the given, the image's and the injected environment", async () => {
    const id = await running({ env: { MINE: "a=b c", HOME: "/tmp" }, args: "env" });
    await until(() => entry(id)?.status === "EXITED");
    const env = Object.fromEntries(
      lines(id).map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
    );
    expect(Object.keys(env).sort((a, b) => a.localeCompare(b))).toEqual([
      "GPU_GATE_HOOK_DIR",
      "HOME",
      "MINE",
      "PATH",
      "RUNPOD_API_KEY",
      "RUNPOD_DC_ID",
      "RUNPOD_POD_ID",
      "RUNPOD_PUBLIC_IP",
      "RUNPOD_TCP_PORT_22",
    ]);
    expect(env).toMatchObject({
      MINE: "a=b c",
      HOME: "/tmp",
      RUNPOD_POD_ID: id,
      RUNPOD_DC_ID: (await look(id)).dataCenterId,
    });
    expect(env["PATH"]).toMatch(new RegExp(`/pods/${id}/bin:`));
  });

  it("lets a pod-scoped key read and end its own pod only", async () => {
    const id = await running({ args: bash("echo $RUNPOD_API_KEY; sleep 60") });
    const other = pod(await world.create()).id;
    await until(() => lines(id).length > 0);
    const scoped = { Authorization: `Bearer ${lines(id)[0]}` };
    expect((await world.call("GET", `/pods/${id}`, undefined, scoped)).status).toBe(200);
    for (const path of ["/pods", `/pods/${other}`, "/catalog/gpus"]) {
      expect((await world.call("GET", path, undefined, scoped)).status).toBe(403);
    }
    expect((await world.call("DELETE", `/pods/${other}`, undefined, scoped)).status).toBe(403);
    expect((await world.call("DELETE", `/pods/${id}`, undefined, scoped)).status).toBe(204);
    expect((await world.call("GET", `/pods/${id}`, undefined, scoped)).status).toBe(401);
  });

  it("keeps a crash-looping container RUNNING and moves startedAt", async () => {
    world.runpod.nextPod({ onContainerExit: "restart", timing: { restartMs: 5_000 } });
    const id = await running({ args: bash("exit 1") });
    await until(() => entry(id)?.processGroup === null);
    const before = await look(id);
    expect(before).toMatchObject({ status: "RUNNING", runtime: null });
    world.pass(5_000);
    const after = await look(id);
    expect(after.status).toBe("RUNNING");
    expect([before.startedAt, after.startedAt].map((at) => Date.parse(at ?? ""))).toEqual([T0 + 2_000, T0 + 7_000]);
    expect(entry(id)?.containerStarts).toBe(2);
  });

  it("shows a container's end as EXITED with cost 0", async () => {
    const id = await running({ args: bash("exit 0") });
    await until(() => entry(id)?.status === "EXITED");
    expect(await look(id)).toMatchObject({ status: "EXITED", cost: 0, runtime: null });
    // It is still rented: only a release ends the bill.
    expect(world.runpod.bills()[0]?.releasedAtMs).toBeNull();
  });

  it("can keep the status RUNNING after the container's end, without a runtime", async () => {
    world.runpod.nextPod({ onContainerExit: "runtime-gone" });
    const id = await running({ args: bash("exit 0") });
    await until(() => entry(id)?.processGroup === null);
    expect(await look(id)).toMatchObject({ status: "RUNNING", runtime: null });
  });

  it("can rent a pod that never boots, errs, or runs nothing", async () => {
    const seen: Record<string, SeenPod> = {};
    for (const boot of ["never", "stuck", "error", "running-without-container"] as const) {
      world.runpod.nextPod({ boot }, { gpuId: GPU });
      seen[boot] = await look(await running({ args: bash("echo must not run") }));
    }
    expect(seen["never"]).toMatchObject({ status: "PROVISIONING", dataCenterId: null });
    expect(seen["stuck"]).toMatchObject({ status: "STARTING" });
    expect(seen["error"]).toMatchObject({ status: "ERROR" });
    expect(seen["running-without-container"]).toMatchObject({ status: "RUNNING", runtime: null });
    expect(world.runpod.bills().every((bill) => bill.microDollars > 0)).toBe(true);
    expect(world.runpod.pods().every((row) => row.processGroup === null)).toBe(true);
  });

  it("can answer with another GPU, count, cloud or price than asked for", async () => {
    world.runpod.nextPod({ assignedGpuId: "NVIDIA A40", assignedGpuCount: 2, assignedCloud: "COMMUNITY", cost: 7 });
    expect(pod(await world.create())).toMatchObject({
      gpu: { id: "NVIDIA A40", count: 2 },
      cloud: "COMMUNITY",
      cost: 7,
    });
  });

  it("applies a script to the named pod only", async () => {
    world.runpod.nextPod({ cost: 7 }, { name: /^late/ });
    expect(pod(await world.create({ name: "early" })).cost).toBe(0.43);
    expect(pod(await world.create({ name: "late-1" })).cost).toBe(7);
    expect(pod(await world.create({ name: "late-2" })).cost).toBe(0.43);
  });

  it("holds somebody else's pods, which run no process", async () => {
    const id = world.runpod.rentForeignPod({ name: "theirs", env: { OWNER: "them" } });
    const [seen] = podList(await world.call("GET", "/pods")).pods;
    expect(seen).toMatchObject({ id, name: "theirs", status: "RUNNING", env: { OWNER: "them" } });
    expect(entry(id)).toMatchObject({ foreign: true, processGroup: null });
  });

  it("streams logs as server-sent events", async () => {
    const id = await running({ args: bash("mkfifo go; echo one; echo two; read -r _ <go; echo three; sleep 60") });
    await until(() => lines(id).length === 2);
    const response = await fetch(`${world.runpod.url}/pods/${id}/logs?source=container&tail=1`, {
      headers: { Authorization: `Bearer ${API_KEY}`, "User-Agent": "t" },
    });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    letGo(id);
    await until(() => lines(id).includes("three"));
    await world.call("DELETE", `/pods/${id}`);
    // Only the last line was asked for, then what is new; the stream ends with the pod.
    const events = (await response.text()).trim().split("\n\n");
    const start = /^id: 2026-11-30T12:00:02\.000Z\ndata: /;
    expect(events.map((event) => start.test(event) && (JSON.parse(event.replace(start, "")) as unknown))).toEqual([
      { ts: "2026-11-30T12:00:02.000Z", source: "container", line: "two" },
      { ts: "2026-11-30T12:00:02.000Z", source: "container", line: "three" },
    ]);
    expect((await world.call("GET", `/pods/${id}/logs`)).status).toBe(404);
  });
});

describe.skipIf(!existsSync("/proc/self/stat"))("processes (needs /proc to see what is left)", () => {
  it("end with the pod, those that ignore SIGTERM included", async () => {
    world.runpod.nextPod({ timing: { killGraceMs: 50 } });
    const id = await running({ args: bash("trap '' TERM; sleep 60 & set -m; sleep 60 & echo up; wait") });
    await until(() => lines(id).includes("up"));
    const group = entry(id)?.processGroup ?? 0;
    expect(sessionMembers(group)).toHaveLength(3);
    await world.call("DELETE", `/pods/${id}`);
    await until(() => sessionMembers(group).length === 0);
  });

  it("end when the container's first process ends", async () => {
    const id = await running({ args: bash("mkfifo go; sleep 60 & echo up; read -r _ <go; exit 0") });
    await until(() => lines(id).includes("up"));
    const group = entry(id)?.processGroup ?? 0;
    expect(sessionMembers(group)).toHaveLength(2);
    letGo(id);
    await until(() => entry(id)?.status === "EXITED");
    await until(() => sessionMembers(group).length === 0);
    expect(lines(id)).toEqual(["up"]);
  });

  it("end when the server is closed", async () => {
    const own = await openWorld({ now: Date.now, timing: { placeMs: 1, bootMs: 1, killGraceMs: 50 } });
    const { id } = pod(await own.create({ args: bash("trap '' TERM; echo up; while :; do sleep 1; done") }));
    await until(() => own.runpod.logs(id).includes("up"));
    const group = own.runpod.pods()[0]?.processGroup ?? 0;
    await own.close();
    expect(sessionMembers(group)).toEqual([]);
  });

  it("end when the server is killed with SIGKILL", async () => {
    const program = join(world.folder, "server.ts");
    const modules = join(import.meta.dirname, "../../local/runpod");
    writeFileSync(
      program,
      `import { startLocalRunPod } from ${JSON.stringify(join(modules, "server.ts"))};
      const runpod = await startLocalRunPod({
        apiKey: "k", stateDir: ${JSON.stringify(join(world.folder, "killed"))}, imageDir: ${JSON.stringify(join(world.folder, "image"))},
        timing: { placeMs: 1, bootMs: 1 },
      });
      const headers = { Authorization: "Bearer k", "User-Agent": "t" };
      const args = ${JSON.stringify(bash("trap '' TERM; while :; do sleep 1; done"))};
      const body = JSON.stringify({ name: "p", image: "i", gpu: { id: "NVIDIA L4", count: 1 }, args });
      await fetch(runpod.url + "/pods", { method: "POST", headers, body });
      const timer = setInterval(() => {
        const group = runpod.pods()[0]?.processGroup;
        if (group) { console.log(group); clearInterval(timer); }
      }, 5);`,
    );
    const server = spawn(process.execPath, [program], { stdio: ["ignore", "pipe", "inherit"] });
    const group = await new Promise<number>((resolve) => {
      createInterface({ input: server.stdout }).once("line", (line) => resolve(Number(line)));
    });
    expect(sessionMembers(group).length).toBeGreaterThan(0);
    server.kill("SIGKILL");
    await until(() => sessionMembers(group).length === 0);
  });
});

describe("the real start script in a local pod", () => {
  /** A gate that takes every proof. */
  async function openGate() {
    const calls: { path: string; body: unknown }[] = [];
    const gate = await listen((request, response) => {
      void readBody(request).then((body) => {
        calls.push({ path: request.url ?? "", body: parseJson(body.toString()) });
        response.writeHead(204).end();
      });
    }, 0);
    return { gate, calls };
  }

  it("proves the rented GPU, starts the runner with the JIT config and ends with it", async () => {
    const { gate, calls } = await openGate();
    const { RUNPOD_API_KEY: _key, RUNPOD_POD_ID: _id, RUNPOD_DC_ID: _dc, ...env } = podEnv(gate.url);
    const id = await running({ args: podStartArgs, env });
    await until(() => entry(id)?.status === "EXITED");
    const proof = podProofSchema.parse(calls[0]?.body);
    expect(proof).toMatchObject({ podId: id, gpuName: GPU, vramMb: 24 * 1024, cuda: "12.8", nvrtc: "12.8" });
    expect(lines(id)).toContain(`runner --jitconfig ${env["GPU_GATE_JIT_CONFIG"]}`);
    expect(calls.map((call) => call.path.split("/").at(-1))).toEqual(["proof", "exit"]);
    await gate.close();
  });

  it("meets the same host's UUID again for the same data centre and host", async () => {
    const { gate, calls } = await openGate();
    const { RUNPOD_API_KEY: _key, RUNPOD_POD_ID: _id, RUNPOD_DC_ID: _dc, ...env } = podEnv(gate.url);
    const uuid = "GPU-aaaaaaaa-0000-0000-0000-000000000000";
    world.runpod.nextPod({ nvidiaSmi: { uuid } });
    const id = await running({ args: podStartArgs, env });
    await until(() => entry(id)?.status === "EXITED");
    expect(podProofSchema.parse(calls[0]?.body).gpuUuid).toBe(uuid);
    await gate.close();
  });

  it.each([
    [{ mode: "error" } as const, "gpu-error"],
    [{ name: "NVIDIA A100 80GB PCIe" }, "gpu-name"],
    [{ cuda: "12.4" }, "driver-too-old"],
  ])("refuses a host whose nvidia-smi shows %j", async (nvidiaSmi, reason) => {
    const { gate, calls } = await openGate();
    const { RUNPOD_API_KEY: _key, RUNPOD_POD_ID: _id, RUNPOD_DC_ID: _dc, ...env } = podEnv(gate.url);
    world.runpod.nextPod({ nvidiaSmi });
    const id = await running({ args: podStartArgs, env });
    await until(() => entry(id)?.status === "EXITED");
    expect(calls).toMatchObject([{ body: { reason } }]);
    expect(lines(id).join("\n")).not.toContain("runner --jitconfig");
    await gate.close();
  });
});

/** Living processes of a session (Linux); a container is a session of its own. */
function sessionMembers(session: number): string[] {
  return readdirSync("/proc").filter((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "utf8");
      const [state, , , own] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return Number(own) === session && state !== "Z";
    } catch {
      return false;
    }
  });
}
