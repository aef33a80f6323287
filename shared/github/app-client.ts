/**
 * What is asked with the App's own JWT: the App, its webhook and deliveries, its installations.
 *
 * GitHub never redelivers by itself, and a delivery can be asked for again for 3 days only.
 */

import * as z from "zod";
import type { Millis } from "../ports.ts";
import { ok, type Result } from "../result.ts";
import type { GitHubApp } from "./app.ts";
import { path, withQuery } from "./call.ts";
import type { GitHubFailure } from "./failure.ts";
import type { RepositoryRef } from "../lifecycle/signal.ts";
import { githubId, instant, optionalId, optionalText, repositoryRef } from "./schema.ts";
import {
  arrayPage,
  countedPage,
  createWire,
  nextPageParameter,
  parseAnswer,
  PAGE_SIZE,
  type Listing,
  type Reply,
} from "./wire.ts";

export interface AppInfo {
  readonly id: string;
  readonly slug: string | null;
  readonly name: string;
  readonly permissions: Readonly<Record<string, string>>;
  readonly events: readonly string[];
}

export interface HookConfig {
  readonly url: string | null;
  /** Must be `json`; GitHub's default is `form`. */
  readonly contentType: string | null;
  readonly verifiesTls: boolean;
  /** GitHub shows a mask when a secret is set. The mask itself is not given on. */
  readonly hasSecret: boolean;
}

/** One attempt to deliver one event. `guid` names the event and is the same on a redelivery; `id` names the attempt. */
export interface HookDelivery {
  readonly id: string;
  readonly guid: string;
  readonly deliveredAt: Millis | null;
  readonly redelivery: boolean;
  /** `OK` is the only good one. */
  readonly status: string;
  readonly statusCode: number;
  readonly event: string;
  readonly action: string | null;
  readonly installationId: string | null;
  readonly repositoryId: string | null;
  readonly throttledAt: Millis | null;
}

export interface HookDeliveryPage {
  readonly deliveries: readonly HookDelivery[];
  /** For the next, older page; null at the end. */
  readonly nextCursor: string | null;
}

export interface Installation {
  readonly id: string;
  readonly appId: string;
  readonly accountLogin: string | null;
  /** `User` or `Organization`. */
  readonly accountType: string | null;
  /** `all` or `selected`. */
  readonly repositorySelection: string;
  readonly permissions: Readonly<Record<string, string>>;
  readonly events: readonly string[];
  readonly suspended: boolean;
}

export interface GitHubAppClient {
  getApp(): Reply<AppInfo>;
  getHookConfig(): Reply<HookConfig>;
  /** One page, newest first, failed and good ones: GitHub's filter for failures misses those without an answer. */
  listHookDeliveries(options?: {
    readonly cursor?: string | null;
    readonly pageSize?: number;
  }): Reply<HookDeliveryPage>;
  /** Asks for one more attempt. GitHub accepts at once and delivers later. */
  redeliver(deliveryId: string): Reply<"accepted">;
  getInstallationForRepository(owner: string, name: string): Reply<Installation>;
  /** All installations of the App, suspended ones too; at most 2,000. */
  listInstallations(): Reply<Listing<Installation>>;
  /** What an installation may see. `maxPages` of 100 each. */
  listInstallationRepositories(installationId: string, maxPages: number): Reply<Listing<RepositoryRef>>;
}

const permissions = z.record(z.string(), z.string());

const appAnswer = z
  .object({ id: githubId, slug: optionalText, name: z.string(), permissions, events: z.array(z.string()) })
  .transform((app): AppInfo => app);

const hookConfigAnswer = z
  .object({
    url: optionalText,
    content_type: optionalText,
    insecure_ssl: z.union([z.string(), z.number()]).optional(),
    secret: optionalText,
  })
  .transform((config): HookConfig => ({
    url: config.url,
    contentType: config.content_type,
    verifiesTls: String(config.insecure_ssl ?? "0") === "0",
    hasSecret: (config.secret ?? "") !== "",
  }));

const deliveryAnswer = z
  .object({
    id: githubId,
    guid: z.string().min(1),
    delivered_at: instant,
    redelivery: z.boolean(),
    status: z.string(),
    status_code: z.number(),
    event: z.string(),
    action: optionalText,
    installation_id: optionalId,
    repository_id: optionalId,
    throttled_at: instant,
  })
  .transform((delivery): HookDelivery => ({
    id: delivery.id,
    guid: delivery.guid,
    deliveredAt: delivery.delivered_at,
    redelivery: delivery.redelivery,
    status: delivery.status,
    statusCode: delivery.status_code,
    event: delivery.event,
    action: delivery.action,
    installationId: delivery.installation_id,
    repositoryId: delivery.repository_id,
    throttledAt: delivery.throttled_at,
  }));

const installationAnswer = z
  .object({
    id: githubId,
    app_id: githubId,
    account: z.object({ login: optionalText, type: optionalText }).nullish(),
    repository_selection: z.string(),
    permissions,
    events: z.array(z.string()),
    suspended_at: z.unknown().optional(),
  })
  .transform((installation): Installation => ({
    id: installation.id,
    appId: installation.app_id,
    accountLogin: installation.account?.login ?? null,
    accountType: installation.account?.type ?? null,
    repositorySelection: installation.repository_selection,
    permissions: installation.permissions,
    events: installation.events,
    suspended: installation.suspended_at !== null && installation.suspended_at !== undefined,
  }));

export function createGitHubAppClient(app: Pick<GitHubApp, "asApp" | "asInstallation">): GitHubAppClient {
  const wire = createWire((call) => app.asApp(call), "app");
  return {
    getApp: () => wire.get("getApp", "/app", appAnswer),

    getHookConfig: () => wire.get("getHookConfig", "/app/hook/config", hookConfigAnswer),

    async listHookDeliveries(options = {}): Promise<Result<HookDeliveryPage, GitHubFailure>> {
      const answer = await app.asApp({
        operation: "listHookDeliveries",
        method: "GET",
        path: withQuery("/app/hook/deliveries", {
          per_page: options.pageSize ?? PAGE_SIZE,
          cursor: options.cursor ?? undefined,
        }),
      });
      if (!answer.ok) return answer;
      const deliveries = parseAnswer(answer.value, z.array(deliveryAnswer));
      if (!deliveries.ok) return deliveries;
      return ok({ deliveries: deliveries.value, nextCursor: nextPageParameter(answer.value.link, "cursor") });
    },

    async redeliver(deliveryId) {
      const answer = await wire.change("redeliver", "POST", path`/app/hook/deliveries/${deliveryId}/attempts`);
      return answer.ok ? ok("accepted") : answer;
    },

    getInstallationForRepository: (owner, name) =>
      wire.get("getInstallationForRepository", path`/repos/${owner}/${name}/installation`, installationAnswer),

    listInstallations: () =>
      wire.list("listInstallations", "/app/installations", arrayPage(installationAnswer), { key: ({ id }) => id }),

    listInstallationRepositories: (installationId, maxPages) =>
      createWire((call) => app.asInstallation(installationId, call), `installation ${installationId}`).list(
        "listInstallationRepositories",
        "/installation/repositories",
        countedPage("repositories", repositoryRef),
        { key: ({ id }) => id, maxPages },
      ),
  };
}
