/**
 * The smoke test against a stub driver and a stub NVRTC, built here with gcc: every answer and every call's failure.
 * What no machine without a GPU can show: that a real NVRTC's program runs on a real driver.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listen } from "../../local/runpod/http.ts";
import type { Listening } from "../../local/runpod/http.ts";
import { podExitSchema, podProofSchema } from "../../shared/runpod/pod-words.ts";
import { removeFolders, runPod, temporaryFolder } from "./harness.ts";
import type { PodRun } from "./harness.ts";

const hasGcc = spawnSync("gcc", ["--version"]).status === 0;

describe.skipIf(!hasGcc)("the smoke test (needs gcc for its stub libraries)", () => {
  let folder = "";
  let config = "";
  let server: Listening;
  const payloads = new Map<string, Buffer>();

  beforeAll(async () => {
    folder = temporaryFolder("cuda");
    config = join(folder, "config");
    const source = join(import.meta.dirname, "stub-cuda.c");
    const build = (part: string, file: string): void => {
      execFileSync("gcc", ["-shared", "-fPIC", "-w", `-D${part}`, `-DCONFIG="${config}"`, "-o", file, source]);
    };
    build("DRIVER", join(folder, "libcuda.so.1"));
    const library = join(folder, "tree", "nvidia", "lib");
    mkdirSync(library, { recursive: true });
    build("NVRTC", join(library, "libnvrtc.so.12"));
    for (const version of ["12.6", "12.8"]) build("BUILTINS", join(library, `libnvrtc-builtins.so.${version}`));
    const pack = (name: string, command: string, args: readonly string[]): void => {
      execFileSync(command, [...args], { cwd: join(folder, "tree") });
      payloads.set(`/${name}`, readFileSync(join(folder, name)));
    };
    pack("nvrtc.whl", "python3", ["-m", "zipfile", "-c", "../nvrtc.whl", "nvidia"]);
    pack("nvrtc.tar.gz", "tar", ["-czf", "../nvrtc.tar.gz", "nvidia"]);
    pack("no-builtins.tar", "tar", ["-cf", "../no-builtins.tar", "nvidia/lib/libnvrtc.so.12"]);
    payloads.set("/neither", Buffer.from("this is no archive"));
    // Ends like a zip, and is broken inside.
    payloads.set(
      "/broken.zip",
      Buffer.concat([Buffer.alloc(40), payloads.get("/nvrtc.whl")?.subarray(-400) ?? Buffer.alloc(0)]),
    );
    server = await listen((request, response) => {
      const payload = payloads.get(request.url ?? "");
      response.writeHead(payload ? 200 : 404).end(payload);
    }, 0);
  });

  afterAll(async () => {
    await server.close();
    removeFolders();
  });

  interface Case {
    readonly config?: string;
    readonly payload?: string;
    readonly sha256?: string;
    readonly cuda?: string;
    readonly env?: Readonly<Record<string, string>>;
  }

  async function smoke(options: Case = {}): Promise<PodRun> {
    writeFileSync(config, `${options.config ?? ""}\n`);
    const payload = options.payload ?? "/nvrtc.whl";
    const bytes = payloads.get(payload) ?? Buffer.alloc(0);
    const pinned = options.sha256 ?? createHash("sha256").update(bytes).digest("hex");
    const version = (options.cuda ?? "12.8") === "12.6" ? "12_6" : "12_8";
    return runPod({
      gpu: { cuda: options.cuda ?? "12.8" },
      env: {
        GPU_GATE_SMOKE: "required",
        LD_LIBRARY_PATH: folder,
        [`GPU_GATE_NVRTC_${version}_URL`]: `${server.url}${payload}`,
        [`GPU_GATE_NVRTC_${version}_SHA256`]: pinned,
        ...options.env,
      },
    });
  }

  const reason = (run: PodRun) => podExitSchema.parse(run.calls.at(-1)?.body).reason;

  it.each([
    { what: "a wheel on a 12.8 driver", given: {}, nvrtc: "12.8", loaded: "12.8" },
    { what: "a tar", given: { payload: "/nvrtc.tar.gz" }, nvrtc: "12.8", loaded: "12.8" },
    {
      what: "NVRTC 12.6 on a 12.6 driver",
      given: { cuda: "12.6", config: "nvrtc_minor=6\ndriver=12060" },
      nvrtc: "12.6",
      loaded: "12.6",
    },
    {
      what: "a newer NVRTC than chosen that the driver still takes",
      given: { cuda: "13.0", config: "nvrtc_minor=9\ndriver=13000" },
      nvrtc: "12.8",
      loaded: "12.9",
    },
  ])("passes with $what, and both versions are proven", async ({ given, nvrtc, loaded }) => {
    const run = await smoke(given);
    expect(run.output).toContain(`nvrtc-loaded ${loaded}`);
    expect(podProofSchema.parse(run.calls[0]?.body)).toMatchObject({ smoke: "passed", nvrtc, nvrtcLoaded: loaded });
    expect(run.runner).not.toBeNull();
    expect(run.code).toBe(0);
  });

  const failing: readonly { what: string; given: Case; says: string; reason?: string }[] = [
    { what: "another value read back", given: { config: "answer=41" }, says: "gave 41 instead of 42" },
    { what: "a kernel that never ran over memory that holds 42", given: { config: "runs=0" }, says: "gave 0 instead" },
    { what: "NVRTC older than chosen", given: { config: "nvrtc_minor=6" }, says: "older than the chosen" },
    { what: "NVRTC newer than the driver", given: { config: "nvrtc_minor=9" }, says: "newer than the driver's 12.8" },
    { what: "NVRTC of the next major", given: { config: "nvrtc_major=13\nnvrtc_minor=0" }, says: "newer than" },
    { what: "a libcuda older than NVRTC", given: { config: "driver=12060" }, says: "newer than libcuda's 12.6" },
    { what: "no device", given: { config: "count=0" }, says: "shows 0 GPUs" },
    { what: "two devices", given: { config: "count=2" }, says: "shows 2 GPUs" },
    { what: "an empty program", given: { config: "ptx=0" }, says: "empty program" },
    { what: "a program of NULs", given: { config: "ptx=2" }, says: "empty program" },
    { what: "a crash in NVRTC", given: { config: "crash=1" }, says: "REFUSED (smoke-failed)" },
    { what: "no libcuda", given: { env: { LD_LIBRARY_PATH: "/nowhere" } }, says: "libcuda.so.1" },
    { what: "a payload without builtins", given: { payload: "/no-builtins.tar" }, says: "holds no NVRTC 12.8" },
    { what: "a payload that is no archive", given: { payload: "/neither" }, says: "neither a zip nor a tar" },
    { what: "a broken archive", given: { payload: "/broken.zip" }, says: "REFUSED (smoke-failed)" },
    {
      what: "another file than pinned",
      given: { sha256: "0".repeat(64) },
      says: "not the pinned",
      reason: "nvrtc-checksum",
    },
    {
      what: "a file that is not there",
      given: { payload: "/gone" },
      says: "could not be fetched",
      reason: "nvrtc-download",
    },
    { what: "an address without a hash", given: { sha256: "" }, says: "SHA-256", reason: "nvrtc-not-configured" },
    {
      what: "only the other NVRTC configured",
      given: { cuda: "12.6", env: { GPU_GATE_NVRTC_12_6_URL: "" } },
      says: "NVRTC 12.6",
      reason: "nvrtc-not-configured",
    },
  ];

  it.each(failing)("fails with $what, and no runner starts", async (row) => {
    const run = await smoke(row.given);
    expect(run.output).toContain(row.says);
    expect(reason(run)).toBe(row.reason ?? "smoke-failed");
    expect(run.code).toBe(1);
    expect(run.runner).toBeNull();
  });

  const calls = [...readFileSync(join(import.meta.dirname, "stub-cuda.c"), "utf8").matchAll(/^int (\w+)\(/gm)];

  it.each(calls.map((match) => match[1] ?? ""))("fails when %s fails", async (name) => {
    const run = await smoke({ config: `fail=${name}` });
    expect(run.output).toContain(`${name} answered 999`);
    expect(reason(run)).toBe("smoke-failed");
    expect(run.runner).toBeNull();
  });
});
