/** Makes a payload's tree from an installed toolkit or a folder: copies what travels, checks it, marks it complete last. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, isAbsolute, join, relative } from "node:path";
import { formatCudaVersion, type CudaVersion } from "../../shared/runpod/cuda.ts";
import {
  MARKER_FILE,
  payloadProblems,
  travels,
  wheelProblems,
  type PayloadEntry,
  type PayloadKind,
} from "../../shared/hosted/payload.ts";
import { err, ok, type Result } from "../../shared/result.ts";
import { UsageError } from "../command.ts";
import { compileHeaders } from "./nvrtc.ts";
import { readTree, type Marker } from "./tree.ts";

export interface StageRequest {
  readonly source: string;
  readonly kind: PayloadKind;
  /** The kind's name as it was given: part of the marker. */
  readonly kindName: string;
  readonly target: string;
  /** `require`: headers that could not be compiled are a problem. `auto`: only headers that do not compile are. */
  readonly nvrtc: "require" | "auto";
}

/** Gives the marker, or what is wrong with the tree, one sentence each. The target appears only when it is complete. */
export function stageTree(request: StageRequest): Result<Marker, readonly string[]> {
  const { source, kind, target } = request;
  if (existsSync(target) && readdirSync(target).length > 0)
    throw new UsageError(`The folder '${target}' is not empty; name one that is to be made.`);
  const entries = readTree(source)
    .filter((entry) => travels(kind, entry))
    .map((entry) => (entry.kind === "link" ? withRelativeTarget(source, entry) : entry));
  const problems = [...payloadProblems(kind, entries), ...wheelProblems(entries)];
  if (problems.length > 0) return err(problems);

  const staging = `${target}.staging`;
  rmSync(staging, { recursive: true, force: true });
  for (const entry of entries) {
    const path = join(staging, entry.path);
    mkdirSync(dirname(path), { recursive: true });
    if (entry.kind === "link") symlinkSync(entry.target, path);
    else copyFileSync(join(source, entry.path), path);
  }
  const headers = kind.name === "cuda" ? checkHeaders(staging, entries, kind.version, request.nvrtc) : ok("no headers");
  if (!headers.ok) {
    rmSync(staging, { recursive: true });
    return err([headers.error]);
  }
  const marker: Marker = { format: 1, kind: request.kindName, headers: headers.value };
  writeFileSync(join(staging, MARKER_FILE), `${JSON.stringify(marker)}\n`);
  rmSync(target, { recursive: true, force: true });
  renameSync(staging, target);
  return ok(marker);
}

/** Installers write some links with absolute targets; inside the source they mean the same relative ones. */
function withRelativeTarget(source: string, entry: Extract<PayloadEntry, { kind: "link" }>): PayloadEntry {
  if (!isAbsolute(entry.target) || !existsSync(entry.target)) return entry;
  const inside = relative(realpathSync(source), realpathSync(entry.target));
  if (inside.startsWith("..") || isAbsolute(inside)) return entry;
  return { ...entry, target: relative(dirname(entry.path), inside) };
}

function checkHeaders(
  staging: string,
  entries: readonly PayloadEntry[],
  version: CudaVersion,
  wish: "require" | "auto",
): Result<string, string> {
  const library = entries.find((entry) => /(?:^|\/)lib(?:64)?\/libnvrtc\.so(?:\.\d+)*$/.test(entry.path));
  const folders = new Set(entries.flatMap(({ path }) => /^(?:.*\/)?include(?=\/)/.exec(path)?.[0] ?? []));
  // CCCL has a folder of its own inside include/ since CUDA 13.
  const cccl = [...folders].map((folder) => `${folder}/cccl`).filter((folder) => existsSync(join(staging, folder)));
  const includes = [...folders, ...cccl].map((folder) => join(staging, folder));
  const compiled = compileHeaders(join(staging, library?.path ?? ""), includes);
  if (compiled.ok) {
    if (formatCudaVersion(compiled.value) === formatCudaVersion(version))
      return ok(`compiled with NVRTC ${formatCudaVersion(version)}`);
    return err(`The tree holds NVRTC ${formatCudaVersion(compiled.value)}, not ${formatCudaVersion(version)}.`);
  }
  if (compiled.error.reason === "failed")
    return err(`The headers do not compile with the tree's own NVRTC: ${compiled.error.detail}.`);
  return wish === "require"
    ? err(`The headers were not compiled: ${compiled.error.detail}.`)
    : ok(`not compiled: ${compiled.error.detail}`);
}
