/**
 * Runs the real start script with bash against stubs: the local image's nvidia-smi, a scripted runner, a tiny gate.
 * Nothing here decides anything; each test says what the gate answers and what the machine looks like.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { buildImage, unpackImage, writeGpuReport } from "../../local/runpod/image.ts";
import { listen, parseJson, readBody } from "../../local/runpod/http.ts";
import type { GpuReport } from "../../local/runpod/types.ts";
import { startScript } from "../../pod/script.ts";

/** Values that must not be found where they do not belong. */
export const canaries = {
  proof: "canary-proof-nonce-1",
  exit: "canary-exit-nonce-2",
  jit: "Y2FuYXJ5LWppdC1jb25maWc=",
  key: "canary-pod-scoped-key",
};

export const healthyGpu: GpuReport = {
  name: "NVIDIA L4",
  uuid: "GPU-0f0f0f0f-1111-2222-3333-444444444444",
  memoryMb: 23034,
  driver: "570.86.15",
  cuda: "12.8",
  mode: "healthy",
};

export interface GateCall {
  readonly path: string;
  readonly bearer: string;
  readonly body: unknown;
}

export interface PodRun {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
  readonly calls: readonly GateCall[];
  /** What the stub runner wrote before it ended, or null when it never started. */
  readonly runner: { readonly args: string; readonly env: readonly string[]; readonly uid: string } | null;
  readonly podDir: string;
  readonly hook: string;
}

export interface PodOptions {
  readonly gpu?: Partial<GpuReport>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Status of the n-th proof call (from 0); default 200. */
  readonly proofStatus?: (call: number) => number;
  /** Extra bash in the stub runner, before it ends; its own exit code counts. */
  readonly runner?: string;
  /** Run as this user (the test must be root), who then owns the pod's files. */
  readonly uid?: number;
  readonly script?: string;
  /** Called with each line of output while it runs. */
  readonly onLine?: (line: string, child: ChildProcess, podDir: string) => void;
  /** Changes the unpacked image before the start. */
  readonly prepare?: (podDir: string) => void;
}

const folders: string[] = [];

/** A folder that `removeFolders` removes. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `gpu-gate-${name}-`));
  folders.push(folder);
  return folder;
}

export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** The facts and secrets of a good create, with the gate's address. */
export function podEnv(gateUrl: string): Record<string, string> {
  return {
    GPU_GATE_URL: gateUrl,
    GPU_GATE_REPOSITORY_ID: "9007199254740993",
    GPU_GATE_ATTEMPT: "r1-a1",
    GPU_GATE_PROOF_NONCE: canaries.proof,
    GPU_GATE_EXIT_NONCE: canaries.exit,
    GPU_GATE_JIT_CONFIG: canaries.jit,
    GPU_GATE_EXPECTED_GPU_NAMES: "NVIDIA A40\nNVIDIA L4",
    GPU_GATE_MIN_VRAM_MB: "8000",
    GPU_GATE_MIN_DRIVER_CUDA: "12.6",
    GPU_GATE_RUN_ID: "77",
    GPU_GATE_RUN_ATTEMPT: "1",
    GPU_GATE_WORKFLOW_REF: "acme/widgets/.github/workflows/gpu.yml@refs/heads/main",
    GPU_GATE_STARTUP_SECONDS: "30",
    GPU_GATE_SMOKE: "off",
    GPU_GATE_DEPLOYMENT: "test",
    GPU_GATE_REQUEST: "r1",
    RUNPOD_API_KEY: canaries.key,
    RUNPOD_POD_ID: "pod12345",
    RUNPOD_DC_ID: "US-KS-2",
  };
}

/** Runs the script to its end. */
export async function runPod(options: PodOptions = {}): Promise<PodRun> {
  const folder = temporaryFolder("pod");
  const imageDir = join(folder, "image");
  const podDir = join(folder, "pod");
  const seen = join(folder, "seen");
  writeFileSync(join(folder, "run.sh"), stubRunner(seen, options.runner ?? "exit 0"));
  chmodSync(join(folder, "run.sh"), 0o755);
  buildImage({ imageDir, runScript: join(folder, "run.sh") });
  const files = unpackImage(imageDir, podDir);
  writeGpuReport(podDir, { ...healthyGpu, ...options.gpu });
  // The runner may be another user than the test.
  chmodSync(folder, 0o755);
  options.prepare?.(podDir);
  if (options.uid !== undefined) execFileSync("chown", ["-R", `${options.uid}:${options.uid}`, folder]);

  const calls: GateCall[] = [];
  let proofs = 0;
  const gate = await listen((request, response) => {
    void readBody(request).then((body) => {
      const path = request.url ?? "";
      const bearer = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
      calls.push({ path, bearer, body: parseJson(body.toString()) });
      const isProof = path.endsWith("/proof");
      response.writeHead(isProof ? (options.proofStatus?.(proofs) ?? 200) : 204).end();
      if (isProof) proofs += 1;
    });
  }, 0);

  const given = { ...files.env, ...podEnv(gate.url), ...options.env };
  const env = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const child = spawn("bash", ["-c", options.script ?? startScript, "gpu-gate-start"], {
    cwd: files.cwd,
    env: env as NodeJS.ProcessEnv,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      options.onLine?.(line, child, podDir);
    });
  }
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.on("close", (...ended) => resolve(ended));
  });
  await gate.close();
  return {
    code,
    signal,
    output: lines.join("\n"),
    calls,
    runner: readRunner(seen),
    podDir,
    hook: join(podDir, "opt", "gpu-gate", "job-started.sh"),
  };
}

function stubRunner(seen: string, ending: string): string {
  return `#!/usr/bin/env bash
printf '%s\\n' "$*" >${seen}.args
tr '\\0' '\\n' </proc/$$/environ >${seen}.env
id -u >${seen}.uid
echo "runner up $$ parent $PPID"
${ending}
`;
}

function readRunner(seen: string): PodRun["runner"] {
  if (!existsSync(`${seen}.uid`)) return null;
  const read = (part: string): string => readFileSync(`${seen}.${part}`, "utf8").trim();
  return { args: read("args"), env: read("env").split("\n"), uid: read("uid") };
}
