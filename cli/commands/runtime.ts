/** `gpu-gate runtime`: which CUDA runtime a driver gets, and whether the installed one is it. */
import { appendFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import {
  chooseRuntime,
  formatCudaVersion,
  FULL_RUNTIME,
  LOWEST_RUNTIME,
  parseCudaVersion,
  readDriverCuda,
  type CudaVersion,
} from "../../shared/runpod/cuda.ts";
import { explainRuntimeRefusal, judgeRuntime, type RuntimeRefusal } from "../../shared/hosted/runtime.ts";
import type { Result } from "../../shared/result.ts";
import { ok } from "../../shared/result.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { readText, required } from "../files.ts";
import { nvrtcVersion } from "../payload/nvrtc.ts";

const LOWEST = formatCudaVersion(LOWEST_RUNTIME);
const FULL = formatCudaVersion(FULL_RUNTIME);

const usage = `
gpu-gate runtime choose (--nvidia-smi FILE | --driver X.Y) [--minimum ${LOWEST}] [--full ${FULL}]
gpu-gate runtime verify (--nvidia-smi FILE | --driver X.Y) --chosen X.Y (--library FILE | --loaded X.Y) [--minimum ${LOWEST}]

choose  prints the runtime that the driver gets: --full when the driver supports it, else --minimum; also as outputs
        driver, runtime, tier and package where GITHUB_OUTPUT is set
verify  refuses a loaded NVRTC that is older than the minimum, newer than the driver or not the chosen one
  --nvidia-smi  what nvidia-smi printed ('-' reads standard input), or
  --driver      the newest CUDA version that the driver supports
  --chosen      what 'runtime choose' printed
  --library     the libnvrtc.so that the tests will load; it is asked for its version with python3, or
  --loaded      its version, from elsewhere

Versions compare as pairs of numbers: 12.10 is newer than 12.8.
Exit codes: 0 fine, 1 refused, 2 wrong call.
`;

export const runtimeCommand: Command = {
  name: "runtime",
  summary: "Choose the CUDA runtime for a driver and verify the installed one",
  usage,
  run: async (args, io) => {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        "nvidia-smi": { type: "string" },
        driver: { type: "string" },
        minimum: { type: "string", default: LOWEST },
        full: { type: "string", default: FULL },
        chosen: { type: "string" },
        loaded: { type: "string" },
        library: { type: "string" },
      },
    });
    const [action, ...rest] = positionals;
    if ((action !== "choose" && action !== "verify") || rest.length > 0)
      throw new UsageError("Say what to do with the runtime: choose or verify.");
    const minimum = version(values.minimum, "--minimum");
    const driver = await driverOf(io, values["nvidia-smi"], values.driver);
    if (!driver.ok) return refuse(io, driver.error);
    if (action === "choose") return await choose(io, driver.value, minimum, version(values.full, "--full"));
    const chosen = version(required(values.chosen, "--chosen", "The chosen runtime"), "--chosen");
    const loaded = loadedOf(io, values.library, values.loaded);
    const refusal = judgeRuntime({ driver: driver.value, chosen, loaded }, minimum);
    if (refusal !== null) return refuse(io, refusal);
    io.stdout(`NVRTC ${formatCudaVersion(loaded)}, driver ${formatCudaVersion(driver.value)}: as chosen.\n`);
    return EXIT_OK;
  },
};

async function choose(io: Io, driver: CudaVersion, minimum: CudaVersion, full: CudaVersion): Promise<number> {
  const choice = chooseRuntime(driver, minimum, full);
  if (!choice.ok) return refuse(io, choice.error);
  const { runtime, tier, nvrtcPackage } = choice.value;
  const outputs = `driver=${formatCudaVersion(driver)}\nruntime=${formatCudaVersion(runtime)}\ntier=${tier}\npackage=${nvrtcPackage}\n`;
  const file = io.env["GITHUB_OUTPUT"];
  if (file !== undefined && file !== "") await appendFile(file, outputs);
  io.stdout(outputs);
  return EXIT_OK;
}

async function driverOf(
  io: Io,
  smi: string | undefined,
  driver: string | undefined,
): Promise<Result<CudaVersion, RuntimeRefusal>> {
  if ((smi === undefined) === (driver === undefined))
    throw new UsageError("Give the driver either as --nvidia-smi or as --driver.");
  if (driver !== undefined) return ok(version(driver, "--driver"));
  return readDriverCuda(await readText(io, smi ?? "-", "What nvidia-smi printed"));
}

function loadedOf(io: Io, library: string | undefined, loaded: string | undefined): CudaVersion {
  if ((library === undefined) === (loaded === undefined))
    throw new UsageError("Give the loaded NVRTC either as --library or as --loaded.");
  if (loaded !== undefined) return version(loaded, "--loaded");
  const asked = nvrtcVersion(resolve(io.cwd, library ?? ""));
  if (!asked.ok) throw new UsageError(`The NVRTC library cannot be asked: ${asked.error.detail}.`);
  return asked.value;
}

function version(text: string, option: string): CudaVersion {
  const parsed = parseCudaVersion(text);
  if (parsed === null) throw new UsageError(`${option} is a version such as 12.8, not '${text}'.`);
  return parsed;
}

function refuse(io: Io, refusal: RuntimeRefusal): number {
  io.stderr(`::error title=Runtime refused::${explainRuntimeRefusal(refusal)}.\n`);
  return EXIT_NO;
}
