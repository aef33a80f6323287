/**
 * The platform's side of the ports: a Durable Object's storage as `Sql`, its alarm, and the clients with the platform's
 * clock, randomness and fetch. One GitHub App instance per isolate, so that its tokens are reused.
 */
import { createGitHubApp, type GitHubApp } from "../shared/github/app.ts";
import { createGitHubClient } from "../shared/github/client.ts";
import { createEtagCache } from "../shared/github/etag.ts";
import { systemClock, type FetchLike, type Millis } from "../shared/ports.ts";
import { createRunPodClient, type RunPodClient } from "../shared/runpod/client.ts";
import { err } from "../shared/result.ts";
import { DeletionReserve } from "../shared/runpod/reserve.ts";
import { resolveImage } from "../shared/runpod/image.ts";
import { describeFailure } from "../shared/github/failure.ts";
import { parseJson } from "../shared/runpod/provider-text.ts";
import type { AccountAnswer, AlarmPort, GatePorts, Sql, SqlValue } from "./gate/ports.ts";
import type { Settings } from "./settings.ts";

export const USER_AGENT = "gpu-gate";

/** Outside calls. A Worker's `fetch` must be called as a plain function. */
export const platformFetch: FetchLike = (input, init) => fetch(input, init);

export function durableSql(storage: DurableObjectStorage): Sql {
  return {
    exec: <Row extends Record<string, SqlValue>>(query: string, ...bindings: SqlValue[]) =>
      storage.sql.exec<Row>(query, ...bindings).toArray(),
    transaction: (body) => storage.transactionSync(body),
  };
}

/** The object's alarm, and what its shell must tell it. */
export interface DurableAlarm extends AlarmPort {
  /** The alarm has fired, or may have been lost: whatever is set next is really set. */
  forget(): void;
}

export function durableAlarm(storage: DurableObjectStorage): DurableAlarm {
  let armed: Millis | null = null;
  return {
    set(at) {
      // Re-arming for the same instant is a write for nothing; the tasks decide most instants many times over.
      if (at === null || at === armed) return;
      armed = at;
      // Output gates hold the answer until this is durable; a failed write resets the object, whose tasks remain.
      void storage.setAlarm(at);
    },
    forget() {
      armed = null;
    },
  };
}

let app: { readonly key: string; readonly app: GitHubApp } | null = null;
const etags = createEtagCache();

/** The App of this isolate. Null when its key cannot be used: /healthz says why. */
export function githubApp(settings: Settings): GitHubApp | null {
  const key = `${settings.appId} ${settings.githubApiUrl} ${settings.appPrivateKey}`;
  if (app?.key === key) return app.app;
  const made = createGitHubApp(
    {
      appId: settings.appId,
      privateKey: settings.appPrivateKey,
      apiUrl: settings.githubApiUrl,
      userAgent: USER_AGENT,
    },
    { fetch: platformFetch, clock: systemClock },
  );
  if (!made.ok) return null;
  app = { key, app: made.value };
  return made.value;
}

/** Without a usable key every call is a failure, never an exception: a gate must still be able to delete its pods. */
export function githubClientFor(settings: Settings): GatePorts["github"] {
  return (repository, installationId, runners, background = false) =>
    createGitHubClient({
      app: githubApp(settings) ?? NO_APP,
      repository: { ...repository, installationId },
      runners,
      etags,
      background,
    });
}

const NO_KEY = "the App's private key cannot be used; see /healthz";
const NO_APP: Pick<GitHubApp, "asRepository"> = {
  asRepository: () => Promise.resolve(err({ reason: "unauthorized", message: NO_KEY })),
};

/** Read with the repository's own token: public, but a Worker's address shares its anonymous quota with strangers. */
export function runnerReleasesFor(settings: Settings): NonNullable<GatePorts["runnerReleases"]> {
  return async (repository, installationId) => {
    const made = githubApp(settings);
    if (made === null) return { ok: false, why: "the App's private key cannot be used" };
    const answer = await made.asRepository(
      { ...repository, installationId },
      {
        operation: "listRunnerReleases",
        method: "GET",
        path: "/repos/actions/runner/releases?per_page=20",
        background: true,
      },
    );
    if (!answer.ok) return { ok: false, why: describeFailure(answer.error) };
    const listing = parseJson(answer.value.text);
    return Array.isArray(listing) ? { ok: true, value: listing } : { ok: false, why: "the releases did not read" };
  };
}

/** What this isolate knows of the quota of the deployment's one RunPod key. */
const reserve = new DeletionReserve();

export function runpodClientFor(
  settings: Pick<Settings, "runpodApiKey" | "runpodApiUrl" | "runpodGraphqlUrl">,
): RunPodClient {
  return createRunPodClient({
    apiKey: settings.runpodApiKey,
    baseUrl: settings.runpodApiUrl,
    graphqlUrl: settings.runpodGraphqlUrl,
    fetch: platformFetch,
    clock: systemClock,
    userAgent: USER_AGENT,
    reserve,
  });
}

/** `registry/name:tag` to a digest. An image that is a digest already needs nobody's answer. */
export function imageResolverFor(settings: Settings): (image: string) => Promise<AccountAnswer<string>> {
  return async (image) => {
    if (image.includes("@sha256:")) return { ok: true, value: image };
    const [, path = image] = /^[^/]+\/(.+)$/.exec(image) ?? [];
    const [repository = path, tag = "latest"] = path.split(":");
    const answer = await resolveImage({
      registryUrl: settings.imageRegistryUrl,
      fetch: platformFetch,
      userAgent: USER_AGENT,
      repository,
      tag,
    });
    if (!answer.ok) {
      return {
        ok: false,
        why: `The runner image ${image} could not be resolved (${answer.error.step}: ${answer.error.why}).`,
      };
    }
    return { ok: true, value: answer.value.reference };
  };
}

/** One log line per event, as JSON, with the fields it was given and nothing else. */
export function logLine(entry: Readonly<Record<string, unknown>>): void {
  console.log(JSON.stringify(entry));
}
