/**
 * The local stand-in for the official runner image: a folder, and one copy of it per pod.
 *
 * The image's folder holds `home/runner/run.sh` (starts the stand-in runner), and `bin/`, first on PATH, with a stub
 * `nvidia-smi`, a `sudo` that just runs its command (there is no root to become here) and `node` for the runner. A pod
 * gets its own copy, so that what one pod writes no other pod sees; its `gpu/` folder is what its `nvidia-smi` prints.
 */
import { chmodSync, cpSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GpuReport } from "./types.ts";

/** Where a container's system commands are. The host's other folders stay out of a pod's PATH. */
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const nvidiaSmi = `#!/usr/bin/env bash
# Stub nvidia-smi: prints what this pod's gpu folder says.
gpu=$(cd "$(dirname "$0")/../gpu" && pwd)
fields= unit=' MiB'
for argument in "$@"; do
  case $argument in
    --query-gpu=*) fields=\${argument#*=} ;;
    --format=*nounits*) unit= ;;
  esac
done
if [ -z "$fields" ]; then
  cat "$gpu/plain"
elif [ -f "$gpu/list" ]; then
  cat "$gpu/list"
else
  IFS=, read -ra wanted <<<"$fields"
  while IFS='|' read -r name uuid memory driver ecc; do
    row=()
    for field in "\${wanted[@]}"; do
      case $field in
        name | gpu_name) row+=("$name") ;;
        uuid | gpu_uuid) row+=("$uuid") ;;
        memory.total) row+=("$memory$unit") ;;
        driver_version) row+=("$driver") ;;
        ecc.errors.uncorrected.volatile.total) row+=("$ecc") ;;
        *) echo "Field \\"$field\\" is not a valid field to query."; exit 2 ;;
      esac
    done
    printf -v line '%s, ' "\${row[@]}"
    printf '%s\\n' "\${line%, }"
  done <"$gpu/rows"
fi
exit "$(cat "$gpu/status")"
`;

const sudo = `#!/usr/bin/env bash
# Stub sudo: the local image has no root to become.
[ "\${1:-}" = -n ] && shift
exec "$@"
`;

export interface ImageOptions {
  readonly imageDir: string;
  /** The runner's start script, called as \`run.sh --jitconfig <blob>\`. */
  readonly runScript: string;
}

/** Makes the image's folder anew. */
export function buildImage(options: ImageOptions): void {
  const home = join(options.imageDir, "home", "runner");
  const bin = join(options.imageDir, "bin");
  rmSync(options.imageDir, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  mkdirSync(bin, { recursive: true });
  writeProgram(join(home, "run.sh"), `#!/usr/bin/env bash\nexec ${shellQuote(options.runScript)} "$@"\n`);
  writeProgram(join(bin, "nvidia-smi"), nvidiaSmi);
  writeProgram(join(bin, "sudo"), sudo);
  symlinkSync(process.execPath, join(bin, "node"));
}

export interface PodFiles {
  /** The container's working directory. */
  readonly cwd: string;
  /** What the image's own ENV sets. */
  readonly env: Readonly<Record<string, string>>;
}

/** A fresh copy of the image in `podDir`. */
export function unpackImage(imageDir: string, podDir: string): PodFiles {
  mkdirSync(podDir, { recursive: true });
  cpSync(join(imageDir, "home"), join(podDir, "home"), { recursive: true, force: true });
  cpSync(join(imageDir, "bin"), join(podDir, "bin"), { recursive: true, force: true });
  const cwd = join(podDir, "home", "runner");
  return {
    cwd,
    env: {
      PATH: `${join(podDir, "bin")}:${SYSTEM_PATH}`,
      HOME: cwd,
      // A container has its own /opt; a folder on somebody's machine must not touch theirs.
      GPU_GATE_HOOK_DIR: join(podDir, "opt", "gpu-gate"),
    },
  };
}

/** Writes what the pod's `nvidia-smi` prints from now on. */
export function writeGpuReport(podDir: string, report: GpuReport): void {
  const folder = join(podDir, "gpu");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const good = [report.name, report.uuid, String(report.memoryMb), report.driver, "[N/A]"].join("|");
  const header = `NVIDIA-SMI ${report.driver}   Driver Version: ${report.driver}   CUDA Version: ${report.cuda}`;
  const healthy = ["+----", `| ${header} |`, "|----", `| 0  ${report.name}  0MiB / ${report.memoryMb}MiB |`, ""].join(
    "\n",
  );
  const write = (plain: string, rows: string, status: number): void => {
    writeFileSync(join(folder, "plain"), plain);
    writeFileSync(join(folder, "rows"), rows);
    writeFileSync(join(folder, "status"), String(status));
  };
  switch (report.mode) {
    case "healthy":
      return write(healthy, `${good}\n`, 0);
    case "error":
      // The card has fallen off the bus, and nvidia-smi still ends with 0.
      return write(healthy.replace("0MiB /", "ERR! /"), `${good}\n`, 0);
    case "none":
      return write("No devices were found\n", "", 6);
    case "two":
      return write(healthy, `${good}\n${good.replace(report.uuid, `${report.uuid}-2`)}\n`, 0);
    case "garbage":
      writeFileSync(join(folder, "list"), "Segmentation fault\n");
      return write("Failed to initialize NVML: Unknown Error\n", "", 0);
    case "missing":
      rmSync(join(podDir, "bin", "nvidia-smi"), { force: true });
      return write("", "", 127);
    case "ecc":
      return write(healthy, `${good.replace("[N/A]", "3")}\n`, 0);
  }
}

function writeProgram(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
