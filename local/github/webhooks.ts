/**
 * Webhook deliveries: signed over the exact bytes sent, ten seconds to answer, never retried by themselves.
 *
 * Every try is a delivery with its own id; the guid belongs to the event and stays the same on a redelivery. Faults of the
 * way to the receiver (lost, doubled, late) are ordered with `next`.
 */

import { createHmac, randomUUID } from "node:crypto";
import type { WebhookRecord } from "./books.ts";
import type { Hub } from "./hub.ts";
import type { Installation, Repository } from "./model.ts";
import type { Json } from "./render-common.ts";
import { renderInstallation, renderOrganization, renderRepository } from "./render-common.ts";

export type WebhookBehaviour =
  /** The connection fails; GitHub lists a failed delivery. */
  | "drop"
  /** Nothing is sent and nothing is listed. */
  | "vanish"
  /** Sent twice with the same guid. */
  | "duplicate"
  | { readonly delayMs: number };

export interface WebhookMatcher {
  readonly event?: string;
  readonly action?: string;
}

/** The permission an installation needs for an event to be sent to it. */
const neededPermission: Readonly<Record<string, string>> = {
  pull_request: "pull_requests",
  workflow_run: "actions",
  workflow_job: "actions",
  check_run: "checks",
  check_suite: "checks",
  merge_group: "merge_queues",
  issue_comment: "issues",
  push: "contents",
  repository: "metadata",
};

interface Outgoing {
  readonly guid: string;
  readonly event: string;
  readonly action: string | null;
  readonly installationId: number | null;
  readonly repositoryId: number | null;
  readonly body: string;
}

export class Webhooks {
  readonly #hub: () => Hub;
  readonly #stop = new AbortController();
  readonly #orders: { readonly matcher: WebhookMatcher; readonly behaviour: WebhookBehaviour; left: number }[] = [];
  #url: string | null;
  #secret: string;
  #pending = 0;
  #quiet: (() => void)[] = [];

  constructor(hub: () => Hub, url: string | null, secret: string) {
    this.#hub = hub;
    this.#url = url;
    this.#secret = secret;
  }

  get url(): string | null {
    return this.#url;
  }

  /** Where deliveries go from now on, and what signs them. Null sends nothing (the deliveries are not listed either). */
  configure(change: { url?: string | null; secret?: string }): void {
    if (change.url !== undefined) this.#url = change.url;
    if (change.secret !== undefined) this.#secret = change.secret;
  }

  /** The next `times` matching events take this way. */
  next(matcher: WebhookMatcher, behaviour: WebhookBehaviour, times = 1): void {
    this.#orders.push({ matcher, behaviour, left: times });
  }

  /** Sends a repository event to the App, if its installation there may have it. Gives the guid, or null if not sent. */
  emit(event: string, action: string | null, repository: Repository, sender: Json, parts: Json): string | null {
    const hub = this.#hub();
    const installation = hub.world.installationOf(repository);
    if (installation === undefined || installation.suspendedAt !== null || !hub.app.events.has(event)) return null;
    const needed = neededPermission[event];
    if (needed !== undefined && needed !== "metadata" && installation.permissions[needed] === undefined) return null;
    const payload = {
      ...(action === null ? {} : { action }),
      ...parts,
      repository: renderRepository(hub, repository),
      ...(repository.owner.type === "Organization" ? { organization: renderOrganization(hub, repository.owner) } : {}),
      sender,
      installation: { id: installation.id, node_id: `I_${installation.id}` },
    };
    return this.#post(event, action, installation.id, repository.id, payload);
  }

  /** Installation events carry the whole installation and are sent whatever the App subscribed to. */
  emitInstallation(event: string, action: string, installation: Installation, sender: Json, parts: Json): string {
    const payload = { action, installation: renderInstallation(this.#hub(), installation), ...parts, sender };
    return this.#post(event, action, installation.id, null, payload);
  }

  /** Sends a past event again, as the button and the API do: same guid, same body, a new delivery id. */
  redeliver(select: { guid: string } | { id: number }): boolean {
    const past = this.#hub().books.webhooks.find((one) =>
      "guid" in select ? one.guid === select.guid : one.id === select.id,
    );
    if (past === undefined) return false;
    this.#deliver(past, true, false);
    return true;
  }

  /** Resolves when no delivery is under way. */
  settled(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#quiet.push(resolve);
    });
  }

  close(): void {
    this.#stop.abort();
  }

  #post(
    event: string,
    action: string | null,
    installationId: number,
    repositoryId: number | null,
    payload: Json,
  ): string {
    const outgoing: Outgoing = {
      guid: randomUUID(),
      event,
      action,
      installationId,
      repositoryId,
      body: JSON.stringify(payload),
    };
    const order = this.#orders.find(
      ({ matcher, left }) =>
        left > 0 &&
        (matcher.event === undefined || matcher.event === event) &&
        (matcher.action === undefined || matcher.action === action),
    );
    if (order !== undefined) order.left -= 1;
    const behaviour = order?.behaviour ?? "send";
    if (behaviour === "vanish" || this.#url === null) return outgoing.guid;
    if (typeof behaviour === "object") {
      this.#pending += 1;
      this.#hub().timers.after(behaviour.delayMs, () => {
        this.#deliver(outgoing, false, false);
        this.#done();
      });
      return outgoing.guid;
    }
    this.#deliver(outgoing, false, behaviour === "drop");
    if (behaviour === "duplicate") this.#deliver(outgoing, false, false);
    return outgoing.guid;
  }

  #deliver(outgoing: Outgoing, redelivery: boolean, lost: boolean): void {
    this.#pending += 1;
    this.#attempt(outgoing, redelivery, lost)
      .catch((problem: unknown) => {
        if (!this.#stop.signal.aborted)
          this.#hub().books.problems.push(`webhook ${outgoing.event}: ${String(problem)}`);
      })
      .finally(() => this.#done());
  }

  #done(): void {
    this.#pending -= 1;
    if (this.#pending > 0) return;
    const waiting = this.#quiet;
    this.#quiet = [];
    for (const resolve of waiting) resolve();
  }

  async #attempt(outgoing: Outgoing, redelivery: boolean, lost: boolean): Promise<void> {
    const hub = this.#hub();
    const url = this.#url;
    if (url === null) return;
    const at = hub.world.clock.now();
    const started = performance.now();
    const headers = this.#headers(hub, outgoing);
    const record = (
      outcome: Pick<WebhookRecord, "statusCode" | "status" | "responseHeaders" | "responseBody">,
    ): void => {
      hub.books.webhooks.push({
        id: hub.world.nextId("delivery", 90_000_000_000),
        guid: outgoing.guid,
        at,
        event: outgoing.event,
        action: outgoing.action,
        installationId: outgoing.installationId,
        repositoryId: outgoing.repositoryId,
        redelivery,
        tookMs: Math.round(performance.now() - started),
        // The signature stays out of the books, as every secret's product does.
        requestHeaders: Object.fromEntries(Object.entries(headers).filter(([name]) => name !== "X-Hub-Signature-256")),
        body: outgoing.body,
        ...outcome,
      });
    };
    const noAnswer = { statusCode: 0, responseHeaders: {}, responseBody: "" };
    if (lost) {
      record({ ...noAnswer, status: "failed to connect to host" });
      return;
    }
    try {
      const response = await fetch(url, {
        method: "POST",
        headers,
        body: outgoing.body,
        redirect: "manual",
        signal: AbortSignal.any([this.#stop.signal, AbortSignal.timeout(hub.timing.webhookTimeoutMs)]),
      });
      const responseBody = (await response.text()).slice(0, 10_000);
      const { status: statusCode } = response;
      const status = response.ok ? "OK" : `Invalid HTTP Response: ${statusCode}`;
      record({ statusCode, status, responseHeaders: Object.fromEntries(response.headers), responseBody });
    } catch (problem) {
      if (this.#stop.signal.aborted) return;
      const timedOut = problem instanceof Error && problem.name === "TimeoutError";
      record({ ...noAnswer, status: timedOut ? "timed out" : "failed to connect to host" });
    }
  }

  #headers(hub: Hub, outgoing: Outgoing): Record<string, string> {
    return {
      "User-Agent": "GitHub-Hookshot/10ca1f0",
      Accept: "*/*",
      "Content-Type": "application/json",
      "X-GitHub-Delivery": outgoing.guid,
      "X-GitHub-Event": outgoing.event,
      "X-GitHub-Hook-ID": "1",
      "X-GitHub-Hook-Installation-Target-ID": String(hub.app.id),
      "X-GitHub-Hook-Installation-Target-Type": "integration",
      "X-Hub-Signature-256": `sha256=${createHmac("sha256", this.#secret).update(outgoing.body).digest("hex")}`,
    };
  }
}
