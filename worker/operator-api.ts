/**
 * The operator's own calls under `/v1/operator`, guarded by `OPERATOR_TOKEN`. Without the token, or while none is set, they
 * are not there: one and the same 404.
 *
 * `pause` stops all buying from the next reservation on; what runs goes on and is deleted as always. `retain` keeps one pod
 * for debugging. `billing` compares RunPod's bill with the ledgers now instead of tonight.
 */
import type { Context, Hono } from "hono";
import * as z from "zod";
import { reconcileBills } from "../cron/billing.ts";
import { operatorActions } from "../durable-objects/gate/operator.ts";
import type { Settings } from "../durable-objects/settings.ts";
import { audit } from "../shared/lifecycle/step.ts";
import { exactText, readBytes } from "./body.ts";
import { isOperator } from "./operator.ts";
import { knownRepositories, type OperatorPorts } from "./operator-ports.ts";

const BODY_LIMIT = 4096;

const sentence = z.string().max(200).default("");
const pauseSchema = z.strictObject({ paused: z.boolean(), reason: sentence });
const retainSchema = z.strictObject({
  repository: z.string().regex(/^[1-9]\d{0,19}$/, "is the numeric id of the repository"),
  pod: z.string().min(1).max(100).optional(),
  request: z.string().min(1).max(100).optional(),
  minutes: z.number().min(0).max(720),
  by: z.string().max(100).default("the operator"),
  reason: sentence,
});
const requestSchema = z.strictObject({
  repository: z.string().regex(/^[1-9]\d{0,19}$/, "is the numeric id of the repository"),
  request: z.string().min(1).max(100),
  action: z.enum(operatorActions),
  by: z.string().min(1).max(100).default("the operator"),
  reason: sentence,
  /** For `approve`: what the run may cost. */
  usd: z.number().positive().max(100).optional(),
});
const billingSchema = z.strictObject({});

type Answer = { readonly status: 200 | 400 | 409; readonly body: Readonly<Record<string, unknown>> };
type Route = (body: unknown, ports: OperatorPorts, settings: Settings) => Promise<Answer>;

export function mountOperatorApi(app: Hono<{ Bindings: Env }>, portsOf: (env: Env) => OperatorPorts): void {
  const on = (path: string, route: Route): void => {
    app.post(path, async (context: Context<{ Bindings: Env }>) => {
      const ports = portsOf(context.env);
      if (!ports.settings.ok || !(await isOperator(context.req.raw, ports.settings.value))) return context.notFound();
      const body = await readJson(context.req.raw);
      if (body === undefined) return context.json({ error: "The body must be a JSON object of 4 KiB at most." }, 400);
      const answer = await route(body, ports, ports.settings.value);
      return context.json(answer.body, answer.status);
    });
  };
  on("/v1/operator/pause", pause);
  on("/v1/operator/retain", retain);
  on("/v1/operator/billing", billing);
  on("/v1/operator/request", aboutRequest);
}

async function aboutRequest(body: unknown, ports: OperatorPorts, settings: Settings): Promise<Answer> {
  const word = requestSchema.safeParse(body);
  if (!word.success) return wrong(word.error);
  const { repository, request, action, by, reason, usd } = word.data;
  const unserved = await unservedAnswer(repository, settings, ports);
  if (unserved !== null) return unserved;
  const micros = usd === undefined ? null : Math.round(usd * 1_000_000);
  const answer = await ports.gate(repository).operator({ action, requestId: request, by, reason, micros });
  ports.log({ event: `operator.${action}`, repository, request, done: answer.done });
  return { status: answer.done ? 200 : 409, body: { ...answer } };
}

async function pause(body: unknown, ports: OperatorPorts, settings: Settings): Promise<Answer> {
  const word = pauseSchema.safeParse(body);
  if (!word.success) return wrong(word.error);
  const { paused, reason } = word.data;
  await ports.account.setPaused(paused);
  // Said first, recorded second: a gate that does not answer must not delay the stop.
  ports.log({ event: paused ? "operator.pause" : "operator.resume", reason });
  const note = audit(paused ? "operator.pause" : "operator.resume", paused ? "buying-paused" : null, { why: reason });
  const told = await Promise.all(
    (await knownRepositories(settings, ports)).map((id) => ports.gate(id).note(note).then(yes, no)),
  );
  return { status: 200, body: { paused, repositories: told.filter(Boolean).length } };
}

async function retain(body: unknown, ports: OperatorPorts, settings: Settings): Promise<Answer> {
  const word = retainSchema.safeParse(body);
  if (!word.success) return wrong(word.error);
  const { repository, pod, request, minutes, by, reason } = word.data;
  const target = pod !== undefined ? { podId: pod } : request !== undefined ? { requestId: request } : null;
  if (target === null || (pod !== undefined && request !== undefined)) {
    return { status: 400, body: { error: "Name either a pod or a request." } };
  }
  const unserved = await unservedAnswer(repository, settings, ports);
  if (unserved !== null) return unserved;
  const answer = await ports.gate(repository).retain({ target, by, minutes, reason });
  ports.log({ event: "operator.retain", repository, kind: answer.kind, minutes });
  return { status: answer.kind === "refused" ? 409 : 200, body: { ...answer } };
}

async function billing(body: unknown, ports: OperatorPorts, settings: Settings): Promise<Answer> {
  const word = billingSchema.safeParse(body);
  if (!word.success) return wrong(word.error);
  const status = await reconcileBills(ports, ports.books, await knownRepositories(settings, ports), { now: true });
  return { status: 200, body: { ...status } };
}

/** Null: it is served, or was. To ask any other would make a gate for it, which knows of nothing. */
async function unservedAnswer(repository: string, settings: Settings, ports: OperatorPorts): Promise<Answer | null> {
  // An order is not refused because the account does not answer.
  const known = await knownRepositories(settings, ports).catch(() => null);
  if (known === null || known.includes(repository)) return null;
  const error = `No repository with the id ${repository} is served here; known are: ${known.join(", ") || "none"}.`;
  return { status: 400, body: { error } };
}

function wrong(error: z.ZodError): Answer {
  const [issue] = error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.join(".")}: `;
  return { status: 400, body: { error: `${where}${issue?.message ?? "the body is not as expected"}.` } };
}

/** Undefined: too long, no text, or no JSON. */
async function readJson(request: Request): Promise<unknown> {
  const bytes = await readBytes(request, BODY_LIMIT);
  const text = bytes.ok ? exactText(bytes.value) : null;
  if (text === null) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

const yes = () => true;
const no = () => false;
