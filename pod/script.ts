/**
 * The pod's start script as the control plane sends it: its text, its hash for the audit, and the `args` of a create.
 *
 * A Worker cannot read files, so `start.sh` with `smoke.py` inside is embedded as text by
 * `node scripts/embed-pod-script.ts`; a test shows that the embedded text is current.
 */
import { startScript, startScriptSha256 } from "./start-script.generated.ts";

export { startScript, startScriptSha256 };

/**
 * The value of `args` in a RunPod create: the JSON object with `entrypoint` and `cmd` (runpod-facts.md section 3.5; a
 * bare string would be split into words). The script names itself `gpu-gate-start` in process lists.
 */
export const podStartArgs: string = JSON.stringify({
  entrypoint: ["bash", "-c"],
  cmd: [startScript, "gpu-gate-start"],
});
