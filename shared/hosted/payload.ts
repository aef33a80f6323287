/**
 * What the rented machine gets besides the test archives: which files of a tree travel, and when a tree is complete.
 *
 * A payload is `common` (tools, wheels, cuTENSOR) or one CUDA runtime (`cuda12.6`, `cuda12.8`). Of a toolkit only headers
 * and shared libraries travel, let through by place and name: compilers, static libraries and driver stubs stay behind.
 * Links stay links: a library exists once, whatever names it has.
 */
import { compareCudaVersions, LOWEST_RUNTIME, parseCudaVersion, type CudaVersion } from "../runpod/cuda.ts";

export type PayloadKind = { readonly name: "common" } | { readonly name: "cuda"; readonly version: CudaVersion };

/** A path of a tree, relative, with `/`. Folders are not listed: they exist where a file or link needs them. */
export type PayloadEntry =
  | { readonly kind: "file"; readonly path: string; readonly bytes: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string };

/** Written last into a staged tree: without it a tree may be half of one. */
export const MARKER_FILE = ".gpu-gate-complete";
/** Travels with a packed tree; `sha256sum --check` reads it, links stand in `#link` lines. */
export const SUMS_FILE = "SHA256SUMS";

/** Libraries without which no CUDA test of a supported project starts. */
export const REQUIRED_LIBRARIES = ["nvrtc", "cublas", "cusolver", "cusparse"] as const;

/** `common` or `cuda<major>.<minor>` of a supported runtime; null for anything else. */
export function parsePayloadKind(text: string): PayloadKind | null {
  if (text === "common") return { name: "common" };
  const version = /^cuda\d+\.\d+$/.test(text) ? parseCudaVersion(text.slice("cuda".length)) : null;
  if (version === null || compareCudaVersions(version, LOWEST_RUNTIME) < 0) return null;
  return { name: "cuda", version };
}

const PLACE = String.raw`(?:targets/[^/]+/)?`;
const CUDA_HEADER = new RegExp(`^${PLACE}include/.`);
const CUDA_LIBRARY = new RegExp(`^${PLACE}lib(?:64)?/([^/]+)$`);
/** The aliases by which builds find a toolkit's folders. */
const CUDA_ALIAS = new RegExp(`^${PLACE}(?:include|lib|lib64)$`);
const NOTICE = /^(?:EULA\.txt|LICENSE(?:\.txt)?|version\.json)$/;
const SHARED_LIBRARY = /\.so(?:\.\d+)*$/;
/** The driver's own libraries come from the machine; what a toolkit has under these names only links. */
const DRIVER_LIBRARY = /^lib(?:cuda|nvidia-[a-z0-9-]+)\.so/;
/** cuTENSOR for several GPUs (Mg) or over MPI (Mp), libraries and headers. */
const MULTI_GPU = /^(?:lib)?cutensorM[gp](?:[._].*)?$/;

/** Whether an entry travels. Wheels travel whole: their own record of files would not fit otherwise. */
export function travels(kind: PayloadKind, entry: PayloadEntry): boolean {
  const { path } = entry;
  if (path === SUMS_FILE || path === MARKER_FILE) return false;
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (kind.name === "common") {
    if (/^wheels(?:-unpacked)?\//.test(path)) return true;
    return !name.endsWith(".a") && !MULTI_GPU.test(name) && !path.split("/").includes("stubs");
  }
  if (CUDA_HEADER.test(path) || NOTICE.test(path)) return true;
  if (entry.kind === "link" && CUDA_ALIAS.test(path)) return true;
  return CUDA_LIBRARY.test(path) && SHARED_LIBRARY.test(name) && !DRIVER_LIBRARY.test(name);
}

/** What keeps a tree from being complete, one sentence each; empty when nothing does. */
export function payloadProblems(kind: PayloadKind, entries: readonly PayloadEntry[]): readonly string[] {
  const tree = treeOf(entries);
  const problems = entries.flatMap((entry) =>
    entry.kind === "link" && resolveLink(tree, entry.path) === null
      ? [`The link ${entry.path} -> ${entry.target} does not resolve inside the tree.`]
      : [],
  );
  const intruders = entries.filter(
    (entry) => !travels(kind, entry) && entry.path !== SUMS_FILE && entry.path !== MARKER_FILE,
  );
  problems.push(...intruders.map((entry) => `${entry.path} does not belong into the payload.`), ...copies(entries));
  if (kind.name === "cuda") problems.push(...missingCuda(tree));
  if (kind.name === "common" && entries.every((entry) => !travels(kind, entry))) problems.push("The tree is empty.");
  return problems;
}

function missingCuda(tree: PayloadTree): string[] {
  const paths = [...tree.entries.keys()];
  const missing = REQUIRED_LIBRARIES.filter((library) => {
    const name = new RegExp(`^lib${library}\\.so(?:\\.\\d+)*$`);
    return !paths.some((path) => name.test(CUDA_LIBRARY.exec(path)?.[1] ?? "") && resolveLink(tree, path) !== null);
  }).map((library) => `lib${library}.so is missing.`);
  const headers = (place: string) => paths.some((path) => CUDA_HEADER.test(path) && path.includes(place));
  if (!headers("/crt/")) missing.push("The CRT headers (include/crt) are missing.");
  if (!headers("/cuda/std/")) missing.push("The CCCL headers (include/cuda/std) are missing.");
  return missing;
}

/** Names of one library that are files instead of links: the same bytes would travel, and be loaded, twice. */
function copies(entries: readonly PayloadEntry[]): string[] {
  const first = new Map<string, string>();
  return entries.flatMap((entry) => {
    const name = entry.path.slice(entry.path.lastIndexOf("/") + 1);
    const stem = SHARED_LIBRARY.test(name) ? name.slice(0, name.indexOf(".so")) : null;
    if (entry.kind !== "file" || stem === null || entry.path.startsWith("wheels")) return [];
    const key = `${stem} ${entry.bytes}`;
    const original = first.get(key);
    if (original !== undefined) return [`${entry.path} is a second copy of ${original}; make it a link.`];
    first.set(key, entry.path);
    return [];
  });
}

const LINKS_MAX = 40;

/** The path a link leads to after all links on the way, or null when it leads nowhere in the tree, out of it or in circles. */
export function resolveLink(tree: PayloadTree, path: string): string | null {
  let parts: string[] = [];
  let rest = path.split("/");
  for (let links = 0; rest.length > 0;) {
    const [next = "", ...after] = rest;
    rest = after;
    if (next === "" || next === ".") continue;
    if (next === "..") {
      if (parts.pop() === undefined) return null;
      continue;
    }
    const entry = tree.entries.get([...parts, next].join("/"));
    if (entry?.kind !== "link") {
      parts = [...parts, next];
      continue;
    }
    links += 1;
    if (links > LINKS_MAX || entry.target.startsWith("/")) return null;
    rest = [...entry.target.split("/"), ...rest];
  }
  const end = parts.join("/");
  return tree.entries.get(end)?.kind === "file" || tree.folders.has(end) ? end : null;
}

/** The files, links and folders of a tree by path. */
export interface PayloadTree {
  readonly entries: ReadonlyMap<string, PayloadEntry>;
  readonly folders: ReadonlySet<string>;
}

export function treeOf(entries: readonly PayloadEntry[]): PayloadTree {
  const folders = new Set<string>([""]);
  for (const { path } of entries)
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) folders.add(path.slice(0, at));
  return { entries: new Map(entries.map((entry) => [entry.path, entry])), folders };
}

/** The stems of unpacked wheels and of wheel files in a common tree; a wheel in both forms is a problem. */
export function wheelProblems(entries: readonly PayloadEntry[]): readonly string[] {
  const unpacked = new Set<string>();
  const recorded = new Set<string>();
  const zipped = new Set<string>();
  for (const { path } of entries) {
    const [, stem = "", inside = ""] = /^wheels-unpacked\/([^/]+)\/(.*)$/.exec(path) ?? [];
    if (stem !== "") unpacked.add(stem);
    if (/^[^/]+\.dist-info\/RECORD$/.test(inside)) recorded.add(stem);
    const wheel = /^wheels\/([^/]+)\.whl$/.exec(path)?.[1];
    if (wheel !== undefined) zipped.add(wheel);
  }
  return [
    ...[...unpacked]
      .filter((stem) => !recorded.has(stem))
      .map((stem) => `wheels-unpacked/${stem} has no dist-info/RECORD, so it is not a whole wheel.`),
    ...[...unpacked]
      .filter((stem) => zipped.has(stem))
      .map((stem) => `The wheel ${stem} is there both unpacked and as a ZIP file; keep one.`),
  ];
}
