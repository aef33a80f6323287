/** Routes of the App itself: who it is, its deliveries, its installations and their tokens; and what anyone may ask. */

import * as z from "zod";
import {
  notFound,
  idParam,
  listAnswer,
  countedAnswer,
  organizationOf,
  param,
  readBody,
  Refusal,
  repositoryOf,
} from "./http.ts";
import type { Call, Route } from "./http.ts";
import type { WebhookRecord } from "./books.ts";
import type { Installation, Repository } from "./model.ts";
import { iso } from "./model.ts";
import { renderApp, renderInstallation, renderRepository } from "./render-common.ts";
import { sees } from "./auth.ts";

const tokenBody = z.object({
  repositories: z.array(z.string()).max(500).optional(),
  repository_ids: z.array(z.number()).max(500).optional(),
  permissions: z.record(z.string(), z.enum(["read", "write"])).optional(),
});

const hookConfig = z.object({
  url: z.string().optional(),
  content_type: z.string().optional(),
  secret: z.string().optional(),
  insecure_ssl: z.union([z.string(), z.number()]).optional(),
});

function installationOf(call: Call): Installation {
  const installation = call.hub.world.installations.get(idParam(call, "installation_id"));
  if (installation === undefined || installation.deleted) throw notFound();
  return installation;
}

function repositoriesOf(call: Call, installation: Installation): Repository[] {
  return [...call.hub.world.repositories.values()].filter(
    (repository) =>
      !repository.deleted &&
      repository.owner.id === installation.account.id &&
      (installation.repositories === null || installation.repositories.has(repository.id)),
  );
}

function createToken(call: Call) {
  const installation = installationOf(call);
  if (installation.suspendedAt !== null) throw new Refusal(403, "This installation has been suspended");
  const body = readBody(call, tokenBody);
  const visible = repositoriesOf(call, installation);
  let chosen: Repository[] | null = null;
  if (body.repositories !== undefined || body.repository_ids !== undefined) {
    const names = new Set(body.repositories?.map((name) => name.toLowerCase()));
    const ids = new Set(body.repository_ids);
    chosen = visible.filter((repository) => names.has(repository.name.toLowerCase()) || ids.has(repository.id));
    if (chosen.length < Math.max(names.size, ids.size)) {
      throw new Refusal(
        422,
        "There is at least one repository that does not exist or is not accessible to the parent installation.",
      );
    }
  }
  const permissions = body.permissions ?? installation.permissions;
  for (const [name, level] of Object.entries(permissions)) {
    const held = installation.permissions[name];
    if (held === undefined || (level === "write" && held === "read")) {
      throw new Refusal(422, "The permissions requested are not granted to this installation.");
    }
  }
  const { token, expiresAt } = call.hub.credentials.issue(
    {
      installation,
      repositories: chosen === null ? null : new Set(chosen.map((repository) => repository.id)),
      permissions: { metadata: "read", ...permissions },
    },
    call.hub.timing.tokenLifetimeMs,
  );
  return {
    status: 201,
    json: {
      token,
      expires_at: iso(expiresAt),
      permissions: { metadata: "read", ...permissions },
      repository_selection: chosen === null && installation.repositories === null ? "all" : "selected",
      ...(chosen === null ? {} : { repositories: chosen.map((repository) => renderRepository(call.hub, repository)) }),
    },
  };
}

function deliveryItem(record: WebhookRecord): Record<string, unknown> {
  return {
    id: record.id,
    guid: record.guid,
    delivered_at: iso(record.at),
    redelivery: record.redelivery,
    duration: record.tookMs / 1000,
    status: record.status,
    status_code: record.statusCode,
    event: record.event,
    action: record.action,
    installation_id: record.installationId,
    repository_id: record.repositoryId,
    throttled_at: null,
  };
}

function findDelivery(call: Call): WebhookRecord {
  const id = idParam(call, "delivery_id");
  const record = call.hub.books.webhooks.find((one) => one.id === id);
  if (record === undefined) throw notFound();
  return record;
}

/** Newest first, by cursor: the cursor is the delivery id to go on below. */
function listDeliveries(call: Call) {
  const perPage = Math.min(Math.max(Number(call.query.get("per_page") ?? 30) || 30, 1), 100);
  const cursor = call.query.get("cursor");
  const status = call.query.get("status");
  const all = [...call.hub.books.webhooks]
    .sort((a, b) => b.id - a.id)
    .filter((record) => cursor === null || record.id < Number(cursor))
    .filter((record) => status !== "success" || record.status === "OK")
    .filter((record) => status !== "failure" || (record.statusCode >= 400 && record.statusCode <= 599));
  const items = all.slice(0, perPage);
  const last = items.at(-1);
  const more = last !== undefined && all.length > perPage;
  const query = new URLSearchParams(call.query);
  if (more) query.set("cursor", String(last.id));
  return {
    status: 200,
    json: items.map(deliveryItem),
    headers: more ? { link: `<${call.hub.url}${call.path}?${query.toString()}>; rel="next"` } : {},
  };
}

function showHookConfig(call: Call) {
  return {
    status: 200,
    json: { url: call.hub.webhooks.url ?? "", content_type: "json", insecure_ssl: "0", secret: "********" },
  };
}

export const appRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/app",
    operation: "apps/get-authenticated",
    as: "app",
    handle: (call) => {
      const count = [...call.hub.world.installations.values()].filter((one) => !one.deleted).length;
      return { status: 200, json: { ...renderApp(call.hub, call.hub.app.id), installations_count: count } };
    },
  },
  {
    method: "GET",
    path: "/app/hook/config",
    operation: "apps/get-webhook-config-for-app",
    as: "app",
    handle: showHookConfig,
  },
  {
    method: "PATCH",
    path: "/app/hook/config",
    operation: "apps/update-webhook-config-for-app",
    as: "app",
    handle: (call) => {
      const { url, secret } = readBody(call, hookConfig);
      call.hub.webhooks.configure({
        ...(url === undefined ? {} : { url }),
        ...(secret === undefined ? {} : { secret }),
      });
      return showHookConfig(call);
    },
  },
  {
    method: "GET",
    path: "/app/hook/deliveries",
    operation: "apps/list-webhook-deliveries",
    as: "app",
    handle: listDeliveries,
  },
  {
    method: "GET",
    path: "/app/hook/deliveries/{delivery_id}",
    operation: "apps/get-webhook-delivery",
    as: "app",
    handle: (call) => {
      const record = findDelivery(call);
      return {
        status: 200,
        unversioned: true,
        json: {
          ...deliveryItem(record),
          url: call.hub.webhooks.url ?? "",
          request: { headers: record.requestHeaders, payload: JSON.parse(record.body) as unknown },
          response: { headers: record.responseHeaders, payload: record.responseBody },
        },
      };
    },
  },
  {
    method: "POST",
    path: "/app/hook/deliveries/{delivery_id}/attempts",
    operation: "apps/redeliver-webhook-delivery",
    as: "app",
    handle: (call) => {
      call.hub.webhooks.redeliver({ id: findDelivery(call).id });
      return { status: 202, json: {} };
    },
  },
  {
    method: "GET",
    path: "/app/installations",
    operation: "apps/list-installations",
    as: "app",
    handle: (call) => {
      const all = [...call.hub.world.installations.values()].filter((one) => !one.deleted);
      return listAnswer(call, all, (one) => renderInstallation(call.hub, one));
    },
  },
  {
    method: "GET",
    path: "/app/installations/{installation_id}",
    operation: "apps/get-installation",
    as: "app",
    handle: (call) => ({ status: 200, json: renderInstallation(call.hub, installationOf(call)) }),
  },
  {
    method: "POST",
    path: "/app/installations/{installation_id}/access_tokens",
    operation: "apps/create-installation-access-token",
    as: "app",
    handle: createToken,
  },
  {
    method: "GET",
    path: "/repos/{owner}/{repo}/installation",
    operation: "apps/get-repo-installation",
    as: "app",
    handle: (call) => {
      const installation = call.hub.world.installationOf(repositoryOf(call));
      if (installation === undefined) throw notFound();
      return { status: 200, json: renderInstallation(call.hub, installation) };
    },
  },
  {
    method: "GET",
    path: "/orgs/{org}/installation",
    operation: "apps/get-org-installation",
    as: "app",
    handle: (call) => {
      const organization = organizationOf(call);
      const found = [...call.hub.world.installations.values()].find(
        (one) => !one.deleted && one.account.id === organization.id,
      );
      if (found === undefined) throw notFound();
      return { status: 200, json: renderInstallation(call.hub, found) };
    },
  },
  {
    method: "GET",
    path: "/users/{username}/installation",
    operation: "apps/get-user-installation",
    as: "app",
    handle: (call) => {
      const account = call.hub.world.account(param(call, "username"));
      const found = [...call.hub.world.installations.values()].find(
        (one) => !one.deleted && one.account.id === account?.id,
      );
      if (found === undefined) throw notFound();
      return { status: 200, json: renderInstallation(call.hub, found) };
    },
  },
  {
    method: "GET",
    path: "/installation/repositories",
    operation: "apps/list-repos-accessible-to-installation",
    as: "installation",
    handle: (call) => {
      const all = [...call.hub.world.repositories.values()].filter((one) => !one.deleted && sees(call.caller, one));
      return countedAnswer(call, "repositories", all, (one) => renderRepository(call.hub, one));
    },
  },
  {
    method: "DELETE",
    path: "/installation/token",
    operation: "apps/revoke-installation-access-token",
    as: "installation",
    handle: (call) => {
      if (call.caller.kind === "installation") call.hub.credentials.revoke(call.caller.tokenHash);
      return { status: 204 };
    },
  },
  {
    method: "GET",
    path: "/rate_limit",
    operation: "rate-limit/get",
    as: "open",
    handle: (call) => {
      const key =
        call.caller.kind === "installation" ? `installation ${call.caller.installation.id}` : call.caller.kind;
      const core = call.hub.rateLimit.numbers(key);
      const other = { ...core, limit: 30, remaining: 30, used: 0 };
      const resources = {
        core,
        search: other,
        actions_runner_registration: { ...other, limit: 10_000, remaining: 10_000 },
      };
      return { status: 200, json: call.version === "2022-11-28" ? { resources, rate: core } : { resources } };
    },
  },
  {
    method: "GET",
    path: "/meta",
    operation: "meta/get",
    as: "open",
    handle: () => ({
      status: 200,
      json: { verifiable_password_authentication: false, hooks: ["127.0.0.1/32"], actions: ["127.0.0.1/32"] },
    }),
  },
];
