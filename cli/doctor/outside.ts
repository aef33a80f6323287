/** RunPod, the runner's image, and the Worker itself. */
import * as z from "zod";
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { FetchLike, Millis } from "../../shared/ports.ts";
import type { RunPodClient } from "../../shared/runpod/client.ts";
import { mayDelete } from "../../shared/runpod/may-delete.ts";
import { compareVersions } from "../../shared/runpod/contract.ts";
import { resolveImage, RUNNER_IMAGE } from "../../shared/runpod/image.ts";
import { judgeRunnerRelease, stableReleases } from "../../shared/runpod/runner-release.ts";
import { CHECK_ADDRESS } from "../control-plane.ts";
import { whyNoAnswer } from "../no-answer.ts";
import { fine, problem, warning, type Finding } from "./finding.ts";

/** Below this much credit, USD, a day of GPU runs may end early. */
const LOW_BALANCE_USD = 5;
const CRON_SILENCE_MS = 300_000;
/** Releases whose images are compared with the one in use. */
const RELEASES = 4;

export async function lookAtRunPod(
  client: Pick<RunPodClient, "listPods" | "deletePod" | "balance">,
): Promise<readonly Finding[]> {
  const listed = await client.listPods();
  const findings: Finding[] = [
    listed.ok
      ? fine("RunPod: list", `${listed.value.pods.length} pods in the account`)
      : problem("RunPod: list", `the key cannot list pods (${listed.error.reason}): pods could not be proven gone.`),
  ];
  const may = await mayDelete(client);
  findings.push(
    may.kind === "yes"
      ? fine("RunPod: delete", "the key may delete pods")
      : problem("RunPod: delete", `the key cannot delete pods (${may.reason}): give it full access to pods.`),
  );
  const balance = await client.balance();
  if (!balance.ok || balance.value.usd === null) {
    const why = balance.ok ? "the answer has none" : balance.error.reason;
    findings.push(warning("RunPod: balance", `could not be told (${why}): look at it in RunPod's console.`));
  } else {
    const say = `USD ${balance.value.usd.toFixed(2)}`;
    const low = balance.value.usd < LOW_BALANCE_USD;
    findings.push(
      low
        ? problem("RunPod: balance", `${say}: add credit, RunPod stops every pod at zero.`)
        : fine("RunPod: balance", say),
    );
  }
  return findings;
}

export async function lookAtRunner(
  config: RepositoryConfig | null,
  registryUrl: string,
  releasesUrl: string,
  fetch: FetchLike,
  now: Millis,
): Promise<Finding> {
  const what = "Runner release";
  const [, name = "", tag = "latest"] =
    /^(?:[^/]+\/)?([^@:]+\/[^@:]+)(?::([^@]+))?(?:@.*)?$/.exec(config?.gpu.image ?? "") ?? [];
  if (config !== null && name !== RUNNER_IMAGE)
    return fine(what, `own image ${config.gpu.image}: its runner is its maker's`);
  const resolve = async (wanted: string): Promise<string | null> => {
    const answer = await resolveImage({
      registryUrl,
      fetch,
      userAgent: "gpu-gate",
      repository: RUNNER_IMAGE,
      tag: wanted,
    });
    return answer.ok ? answer.value.digest : null;
  };
  try {
    const answer = await fetch(releasesUrl, {
      headers: { "user-agent": "gpu-gate" },
      redirect: "manual",
      signal: AbortSignal.timeout(10_000),
    });
    const releases = stableReleases(z.array(z.unknown()).parse(answer.ok ? await answer.json() : null));
    const digest = await resolve(tag);
    if (digest === null) return warning(what, "could not be told: the registry did not name the image.");
    for (const { version } of releases.toSorted((a, b) => compareVersions(b.version, a.version)).slice(0, RELEASES)) {
      const published = await resolve(version);
      if (published !== digest) continue;
      const verdict = judgeRunnerRelease({ version, digest, publishedDigest: published }, releases, now);
      if (verdict.verdict === "ok") return fine(what, `${version}, the newest`);
      const newer = verdict.why === "behind" ? verdict.newer.join(", ") : verdict.why;
      const say = `${version}; there is ${newer}: use a newer image before GitHub stops giving it jobs.`;
      return verdict.verdict === "warn" ? warning(what, say) : problem(what, say);
    }
    return problem(what, `the image is none of the newest ${RELEASES} releases: use a newer one.`);
  } catch {
    return warning(what, "could not be told: GitHub's list of releases was not read.");
  }
}

const health = z.object({
  ok: z.boolean(),
  problems: z.array(z.string()),
  warnings: z.array(z.string()),
  deployment: z.string().nullable(),
  cron: z.object({ lastTickAt: z.number().nullable() }),
});

export async function lookAtWorker(url: string, fetch: FetchLike, now: Millis): Promise<readonly Finding[]> {
  const what = "Worker";
  let answer: Response;
  try {
    answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(15_000) });
  } catch (error) {
    return [problem(what, `${url}/healthz gave no answer: ${whyNoAnswer(error)}. ${CHECK_ADDRESS}.`)];
  }
  try {
    const { ok, problems, warnings, deployment, cron } = health.parse(await answer.json());
    const silence = cron.lastTickAt === null ? null : now - cron.lastTickAt;
    const alive = silence !== null && silence < CRON_SILENCE_MS;
    return [
      ok ? fine(what, `healthy, deployment ${deployment ?? ""}`) : problem(what, problems.join(" ")),
      ...warnings.map((text) => warning(what, text)),
      alive
        ? fine("Cron", `last seen ${Math.round(Math.max(0, silence) / 1000)} s ago`)
        : problem(
            "Cron",
            `${silence === null ? "never ran" : "is silent"}: check the trigger in wrangler.toml and the plan's limits.`,
          ),
    ];
  } catch {
    return [problem(what, `${url}/healthz does not answer as expected: is the Worker deployed there?`)];
  }
}
