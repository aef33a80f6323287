/**
 * Which artifacts of a prepare run the paid job is given, and how.
 *
 * The names are those that gpu-gate-prepare.yml uploads. The job downloads the archives always, the common runtime if there
 * is one, and of the CUDA runtimes only the one that fits the driver it meets: sent as one list, it would have to download
 * all of them on the paid clock.
 */

export interface NamedArtifact {
  readonly id: string;
  readonly name: string;
}

export interface ExecuteArtifacts {
  /** Value of the input `artifact_ids`: ids separated by commas. Empty when the archives are not complete. */
  readonly artifact_ids: string;
  /** Value of the input `runtime_ids`: a JSON object from payload to ids; empty when no complete runtime was staged. */
  readonly runtime_ids: string;
}

const ARCHIVES = /^gpu-gate-archives-(?:part0[0-4]|manifest)$/;
const RUNTIME = /^gpu-gate-runtime-(common|cuda\d+\.\d+)-(?:part0[0-4]|manifest)$/;

/** Five parts and a manifest. */
const PIECES = 6;

/** Artifacts of other names (a test report, say) are left out. */
export function executeArtifacts(artifacts: readonly NamedArtifact[]): ExecuteArtifacts {
  const archives = artifacts.filter((one) => ARCHIVES.test(one.name));
  const payloads = new Map<string, string[]>();
  for (const one of artifacts) {
    const payload = RUNTIME.exec(one.name)?.[1];
    if (payload !== undefined) payloads.set(payload, [...(payloads.get(payload) ?? []), one.id]);
  }
  const complete =
    [...payloads.values()].every((ids) => ids.length === PIECES) && payloads.has("common") && payloads.size > 1;
  const runtime = Object.fromEntries([...payloads].map(([payload, ids]) => [payload, ids.join(",")]));
  return {
    artifact_ids: archives.length === PIECES ? archives.map((one) => one.id).join(",") : "",
    runtime_ids: complete ? JSON.stringify(runtime) : "",
  };
}
