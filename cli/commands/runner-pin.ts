/** `gpu-gate runner-pin`: is the runner image that would start still published, unchanged and fresh enough? */
import { parseArgs } from "node:util";
import { resolveImage, type ImageUnresolved } from "../../shared/runpod/image.ts";
import {
  judgeRunnerRelease,
  MAX_RUNNER_LAG_DAYS,
  stableReleases,
  type RunnerRelease,
  type RunnerReleaseVerdict,
} from "../../shared/runpod/runner-release.ts";
import { compareVersions } from "../../shared/runpod/contract.ts";
import type { Result } from "../../shared/result.ts";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { githubGet } from "../github-get.ts";

const DEFAULT_IMAGE = "ghcr.io/actions/actions-runner:latest";
/** How many releases back a moving tag is looked for: two behind is a failure already. */
const RELEASES_TRIED = 5;

const usage = `
gpu-gate runner-pin [--image REGISTRY/NAME:TAG] [--max-lag-days ${MAX_RUNNER_LAG_DAYS}]
gpu-gate runner-pin --version X.Y.Z --digest sha256:... [--image REGISTRY/NAME] [--max-lag-days ${MAX_RUNNER_LAG_DAYS}]

A scheduled check: GitHub stops giving jobs to runners that are about a month behind its releases, without an error.
The first form watches a moving tag (default ${DEFAULT_IMAGE}): it finds the release whose image the tag names now.
The second watches a pinned version and that the registry still has the pinned digest for it.

  --image            registry, name and tag of the image; a pinned one needs no tag
  --version, --digest
                     the pin: the runner's version and the digest of its image
  --max-lag-days N   for so many days one newer release is a warning

One newer release is a warning until it is --max-lag-days old; two newer ones, an older one, an unpublished version or
another digest are failures. GPU_GATE_TOKEN (or GITHUB_TOKEN) reads the releases; the registry is asked anonymously.

Exit codes: 0 fine or a warning, 1 failed, 2 wrong call or no answer.
`;

export const runnerPinCommand: Command = {
  name: "runner-pin",
  summary: "Check that the runner image is published, unchanged and fresh",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        image: { type: "string", default: DEFAULT_IMAGE },
        version: { type: "string" },
        digest: { type: "string" },
        "max-lag-days": { type: "string", default: String(MAX_RUNNER_LAG_DAYS) },
      },
    });
    if ((values.version === undefined) !== (values.digest === undefined))
      throw new UsageError("A pin is a version and a digest: give both --version and --digest, or neither.");
    if (!/^\d{1,3}$/.test(values["max-lag-days"])) throw new UsageError("--max-lag-days is a whole number of days.");
    const image = readImage(values.image);
    const releases = await readReleases(io);
    const resolveTag = (tag: string) => digestOf(io, image, tag);
    const pin =
      values.version === undefined || values.digest === undefined
        ? await findByTag(resolveTag, image.tag ?? "latest", releases)
        : {
            version: values.version.replace(/^v/, ""),
            digest: values.digest,
            publishedDigest: await resolveTag(values.version.replace(/^v/, "")),
          };
    if (pin === null) {
      io.stdout(
        `::error title=Runner image::The tag '${image.tag ?? "latest"}' names none of the last ${RELEASES_TRIED} releases; it is older than that or not a release.\n`,
      );
      return EXIT_NO;
    }
    return tell(io, pin.version, judgeRunnerRelease(pin, releases, io.now(), Number(values["max-lag-days"])));
  },
};

interface Image {
  readonly host: string;
  readonly repository: string;
  readonly tag: string | undefined;
}

function readImage(text: string): Image {
  const [, host, repository, tag] =
    /^([a-z0-9.-]+(?::\d{1,5})?)\/([a-z0-9._/-]+?)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?$/.exec(text) ?? [];
  if (host === undefined || repository === undefined)
    throw new UsageError(`'${text}' is not an image; write registry/name:tag.`);
  return { host, repository, tag };
}

/** Null when the registry has no such tag; any other trouble ends the check, because silence is not freshness. */
async function digestOf(io: Io, image: Image, tag: string): Promise<string | null> {
  const registryUrl = io.env["IMAGE_REGISTRY_URL"] ?? `https://${image.host}`;
  const answer: Result<{ readonly digest: string }, ImageUnresolved> = await resolveImage({
    registryUrl,
    fetch: io.fetch,
    userAgent: "gpu-gate",
    repository: image.repository,
    tag,
  });
  if (answer.ok) return answer.value.digest;
  if (answer.error.step === "manifest" && answer.error.status === 404) return null;
  const { step, why, status } = answer.error;
  throw new UsageError(
    `The registry did not give the digest of '${tag}': ${step} ${why}${status === null ? "" : ` ${status}`}.`,
  );
}

async function readReleases(io: Io): Promise<readonly RunnerRelease[]> {
  const answer = await githubGet(io)("/repos/actions/runner/releases?per_page=100");
  if (answer.kind === "failure") throw new UsageError(`The runner's releases cannot be read: ${answer.what}.`);
  if (answer.status !== 200)
    throw new UsageError(`The runner's releases cannot be read: GitHub answered ${answer.status}.`);
  let listing: unknown = null;
  try {
    listing = JSON.parse(answer.body);
  } catch {
    // Reported below: text that is no JSON is no list either.
  }
  if (!Array.isArray(listing)) throw new UsageError("The runner's releases cannot be read: the answer is not a list.");
  return stableReleases(listing);
}

/** The newest release whose own tag has the digest that the moving tag has now. */
async function findByTag(
  resolveTag: (tag: string) => Promise<string | null>,
  tag: string,
  releases: readonly RunnerRelease[],
): Promise<{ version: string; digest: string; publishedDigest: string } | null> {
  const digest = await resolveTag(tag);
  if (digest === null) throw new UsageError(`The registry has no tag '${tag}'.`);
  const newest = releases.toSorted((a, b) => compareVersions(b.version, a.version)).slice(0, RELEASES_TRIED);
  for (const { version } of newest) {
    const publishedDigest = await resolveTag(version);
    if (publishedDigest === digest) return { version, digest, publishedDigest };
  }
  return null;
}

function tell(io: Io, version: string, verdict: RunnerReleaseVerdict): number {
  const say = (level: "notice" | "warning" | "error", text: string) =>
    io.stdout(`::${level} title=Runner image::${text}\n`);
  switch (verdict.why) {
    case "latest":
      say("notice", `Runner ${version} is the latest release.`);
      return EXIT_OK;
    case "behind":
      say(
        verdict.verdict === "fail" ? "error" : "warning",
        `Runner ${version} is behind ${verdict.newer.join(", ")}: update before GitHub stops giving it jobs.`,
      );
      return verdict.verdict === "fail" ? EXIT_NO : EXIT_OK;
    case "not-published":
      say("error", `Runner ${version} is not a published stable release.`);
      return EXIT_NO;
    case "digest-mismatch":
      say(
        "error",
        `The registry does not have the pinned digest for runner ${version}: the image was replaced or the pin is wrong.`,
      );
      return EXIT_NO;
  }
}
