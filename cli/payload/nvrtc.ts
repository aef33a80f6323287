/**
 * Asks the real NVRTC: which version it is, and whether a tree's headers compile with it.
 *
 * NVRTC is a library, so a few lines of python load it (hosted runners and the runner image have python3). Compiling needs
 * no GPU. The kernel includes the half types, the matrix header (which pulls in CRT) and a CCCL header: a tree that lacks
 * any of them fails here, on the hosted side, instead of on paid time.
 */
import { spawnSync } from "node:child_process";
import * as z from "zod";
import type { CudaVersion } from "../../shared/runpod/cuda.ts";
import { err, ok, type Result } from "../../shared/result.ts";

export type NvrtcError =
  | { readonly reason: "not-installed"; readonly detail: string }
  | { readonly reason: "failed"; readonly detail: string };

const TIMEOUT_MS = 120_000;

/** Valid for NVRTC and nvcc alike. */
export const PROBE_KERNEL = `
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cuda/std/type_traits>
static_assert(cuda::std::is_same<cuda::std::remove_const<const int>::type, int>::value, "CCCL");
extern "C" __global__ void probe(float *out) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  nvcuda::wmma::fill_fragment(sum, __half2float(__float2half(42.0f)));
  nvcuda::wmma::store_matrix_sync(out, sum, 16, nvcuda::wmma::mem_row_major);
}
`;

/** Arguments: the library, then the include folders; without one only the version is asked. Prints JSON. */
const PYTHON = `
import ctypes, glob, json, os, sys
library, source, includes = sys.argv[1], sys.argv[2], sys.argv[3:]
folder = os.path.dirname(os.path.realpath(library))
try:
    # NVRTC looks for its builtins by name; loaded first, they are found wherever the tree lies.
    for builtins in sorted(glob.glob(os.path.join(folder, "libnvrtc-builtins.so*")))[:1]:
        ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(library)
except OSError as error:
    print(json.dumps({"unloadable": str(error)}))
    sys.exit()
major, minor = ctypes.c_int(), ctypes.c_int()
if nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
    print(json.dumps({"unloadable": "it does not tell its version"}))
    sys.exit()
answer = {"version": [major.value, minor.value]}
if includes:
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = ["--gpu-architecture=compute_80", "--std=c++17"] + ["--include-path=" + path for path in includes]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"probe.cu", 0, None, None)
    if code == 0:
        code = nvrtc.nvrtcCompileProgram(program, len(options), array)
    if code == 0:
        nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
        answer["ptx"] = size.value
    else:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(max(1, size.value))
        nvrtc.nvrtcGetProgramLog(program, log)
        answer["error"] = "code %d: %s" % (code, log.value.decode(errors="replace")[:2000])
print(json.dumps(answer))
`;

const answerSchema = z.union([
  z.object({ unloadable: z.string() }),
  z.object({ version: z.tuple([z.int(), z.int()]), ptx: z.int().optional(), error: z.string().optional() }),
]);

/** The version that the library itself reports. */
export function nvrtcVersion(library: string): Result<CudaVersion, NvrtcError> {
  return ask(library, PROBE_KERNEL, []);
}

/** Compiles the probe kernel with the given include folders; gives the version that did it. */
export function compileHeaders(
  library: string,
  includes: readonly string[],
  source = PROBE_KERNEL,
): Result<CudaVersion, NvrtcError> {
  return ask(library, source, includes);
}

function ask(library: string, source: string, includes: readonly string[]): Result<CudaVersion, NvrtcError> {
  const run = spawnSync("python3", ["-I", "-c", PYTHON, library, source, ...includes], {
    encoding: "utf8",
    timeout: TIMEOUT_MS,
  });
  if (run.error !== undefined) return err({ reason: "not-installed", detail: "python3 is not on this machine" });
  const parsed = answerSchema.safeParse(parseLine(run.stdout));
  if (!parsed.success) {
    const last = run.stderr.trim().split("\n").at(-1) ?? "";
    return err({ reason: "failed", detail: last === "" ? `python3 ended with ${run.signal ?? run.status}` : last });
  }
  if ("unloadable" in parsed.data)
    return err({ reason: "not-installed", detail: `${library} cannot be loaded here (${parsed.data.unloadable})` });
  const { version, ptx, error } = parsed.data;
  if (error !== undefined) return err({ reason: "failed", detail: firstError(error) });
  if (includes.length > 0 && (ptx ?? 0) < 2) return err({ reason: "failed", detail: "it compiled to nothing" });
  return ok(version);
}

/** The compiler's first complaint: the rest follows from it and would not fit into a sentence. */
function firstError(log: string): string {
  const lines = log.split("\n").map((line) => line.trim());
  return (lines.find((line) => line.includes("error")) ?? lines[0] ?? "").replace(/\.$/, "");
}

function parseLine(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
