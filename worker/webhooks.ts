/**
 * `POST /github/webhooks`: one delivery in, one sentence out.
 *
 * In this order: JSON only (415), not too large (413), a signature of the right form (401) that holds over the raw bytes
 * (401), readable (400). Only then is anything parsed. What this deployment does not act on is answered 202 with the
 * reason, counted and logged; the rest is handed to the gate of its repository, and 202 is said only after the gate has
 * stored it. A gate that does not answer is a 503: GitHub then records a failed delivery, which can be redelivered.
 */
import { sha256Hex } from "../shared/config/hash.ts";
import { parseWebhook, type Ignored } from "../shared/github/webhook.ts";
import type { Delivery } from "../shared/lifecycle/signal.ts";
import { declaredTooLarge, readBytes } from "./body.ts";
import type { AppPorts } from "./ports.ts";
import { isSignatureForm, verifyBody } from "./signature.ts";

/** GitHub does not deliver payloads over 25 MB. */
export const WEBHOOK_BODY_LIMIT = 25 * 1024 * 1024;

export interface Answer {
  readonly status: 200 | 202 | 400 | 401 | 413 | 415 | 503;
  /** One sentence, without anything secret. */
  readonly text: string;
}

const TOO_LARGE: Answer = { status: 413, text: "The body is larger than the 25 MB that GitHub sends at most." };

export async function receiveWebhook(request: Request, ports: AppPorts): Promise<Answer> {
  const answer = await verified(request, ports);
  if (answer.status !== 202) ports.tallies.count(`webhooks.refused.${answer.status}`);
  if (answer.status !== 202) ports.log({ event: "webhook.refused", status: answer.status, why: answer.text });
  return answer;
}

async function verified(request: Request, ports: AppPorts): Promise<Answer> {
  if (!ports.settings.ok)
    return { status: 503, text: "This deployment is not configured; /healthz says what is missing." };
  const { webhookSecrets } = ports.settings.value;
  const mediaType = (request.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  if (mediaType !== "application/json") {
    return { status: 415, text: "The content type must be application/json; set it in the App's webhook settings." };
  }
  if (declaredTooLarge(request, WEBHOOK_BODY_LIMIT)) return TOO_LARGE;
  const signature = request.headers.get("x-hub-signature-256") ?? undefined;
  if (!isSignatureForm(signature)) {
    return {
      status: 401,
      text: "The header X-Hub-Signature-256 is missing or has not the form sha256=<64 hex digits>.",
    };
  }
  const body = await readBytes(request, WEBHOOK_BODY_LIMIT);
  if (!body.ok) {
    if (body.error === "too-large") return TOO_LARGE;
    return { status: 400, text: "The body ended before it was complete." };
  }
  if (body.value.byteLength === 0) return { status: 400, text: "The body is empty." };
  const checked = await verifyBody(body.value, signature, webhookSecrets);
  if (checked.kind === "refused") return { status: 401, text: "The signature does not belong to this body." };
  if (checked.kind === "not-text") return { status: 400, text: "The body is not UTF-8 text." };
  return handOver(request, checked.text, ports);
}

async function handOver(request: Request, text: string, ports: AppPorts): Promise<Answer> {
  // Headers are not signed: their form is checked before they are repeated anywhere.
  const event = request.headers.get("x-github-event") ?? "";
  const guid = request.headers.get("x-github-delivery") ?? "";
  if (!/^[\w.-]{1,100}$/.test(event))
    return { status: 400, text: "The header X-GitHub-Event is missing or unreadable." };
  if (!/^[\w.-]{1,100}$/.test(guid))
    return { status: 400, text: "The header X-GitHub-Delivery is missing or unreadable." };
  const parsed = parseWebhook({ event, guid, text });
  if (!parsed.ok) {
    if (parsed.error.reason === "not-json") return { status: 400, text: "The body is not JSON." };
    return { status: 400, text: `The ${event} event cannot be read: ${parsed.error.what} is missing or unreadable.` };
  }
  const deliveries = "ignored" in parsed.value ? everywhere(parsed.value, ports) : parsed.value.deliveries;
  if ("ignored" in parsed.value && deliveries.length === 0) return ignored(parsed.value.ignored, event, guid, ports);

  const ours = deliveries.filter((delivery) => isAllowed(delivery.repository.id, ports));
  if (ours.length === 0) return ignored(`${event} of a repository that is not on the allow-list`, event, guid, ports);
  const bodyHash = await sha256Hex(text);
  const outcomes = await Promise.all(ours.map((delivery) => accept({ ...delivery, bodyHash }, ports)));
  const failed = outcomes.filter((outcome) => outcome !== "accepted" && outcome !== "duplicate");
  if (failed.length > 0) {
    const why = failed.includes("read-only") ? "is read-only until this deployment is up to date" : "did not answer";
    return { status: 503, text: `The repository's gate ${why}; deliver this again later.` };
  }
  const duplicate = outcomes.every((outcome) => outcome === "duplicate");
  return { status: 202, text: duplicate ? "Processed before: nothing changed." : "Accepted." };
}

/** Which of our repositories an installation has is known to their gates alone: each is told, and looks at the id. */
function everywhere(said: Ignored, ports: AppPorts): readonly Delivery[] {
  const { everywhere: about } = said;
  if (about === undefined || !ports.settings.ok) return [];
  return [...ports.settings.value.allowedRepositories].map((id) => ({
    ...about,
    repository: { id, owner: "", name: "" },
  }));
}

/** A gate's word, or that there was none. Several gates of one delivery do not wait for each other. */
async function accept(
  delivery: Delivery,
  ports: AppPorts,
): Promise<"accepted" | "duplicate" | "read-only" | "no-answer"> {
  try {
    return (await ports.gate(delivery.repository.id).accept(delivery)).kind;
  } catch (error) {
    const message = error instanceof Error ? error.message : "unknown error";
    ports.log({ event: "webhook.gate-failed", repository: delivery.repository.id, guid: delivery.guid, message });
    return "no-answer";
  }
}

function isAllowed(repositoryId: string, ports: AppPorts): boolean {
  return ports.settings.ok && ports.settings.value.allowedRepositories.has(repositoryId);
}

function ignored(what: string, event: string, guid: string, ports: AppPorts): Answer {
  ports.tallies.count(`webhooks.ignored.${what}`);
  ports.log({ event: "webhook.ignored", what, github_event: event, guid });
  return { status: 202, text: `Ignored: ${what}.` };
}
