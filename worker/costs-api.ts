/**
 * `GET /api/costs?from=&to=`: the cost report of every pod whose ledger line was closed in that time, over all repositories.
 *
 * Private like the status page unless that is switched on; the operator's token opens it always. `from` and `to` are days
 * (the whole day counts) or instants; without them it is this UTC month until now.
 */
import type { Hono } from "hono";
import { costsAnswerSchema, type CostsAnswer, type ToldCost } from "../shared/cost/report.ts";
import { timeoutSignal, untilAborted } from "../shared/http.ts";
import type { Millis } from "../shared/ports.ts";
import { err, ok, type Result } from "../shared/result.ts";
import { isOperator } from "./operator.ts";
import { knownRepositories, type OperatorPorts } from "./operator-ports.ts";

const GATE_TIMEOUT_MS = 10_000;
const DAY_MS = 86_400_000;
const LONGEST_DAYS = 400;

/** The document of the API is made from this. */
export const costsAnswer = costsAnswerSchema;

export function mountCostsApi(app: Hono<{ Bindings: Env }>, portsOf: (env: Env) => OperatorPorts): void {
  app.get("/api/costs", async (context) => {
    const ports = portsOf(context.env);
    if (!ports.settings.ok) return context.notFound();
    const open = ports.settings.value.statusPage || (await isOperator(context.req.raw, ports.settings.value));
    if (!open) return context.notFound();
    const range = readRange(context.req.query("from"), context.req.query("to"), ports.clock.now());
    if (!range.ok) return context.json({ error: range.error }, 400);
    const ids = await knownRepositories(ports.settings.value, ports);
    return context.json(await readCosts(ids, range.value, ports));
  });
}

export async function readCosts(
  repositoryIds: readonly string[],
  range: { readonly from: Millis; readonly to: Millis },
  ports: Pick<OperatorPorts, "gate">,
): Promise<CostsAnswer> {
  const { from, to } = range;
  const answers = await Promise.all(
    repositoryIds.map((id) =>
      untilAborted(ports.gate(id).costs(from, to), timeoutSignal(GATE_TIMEOUT_MS)).catch(() => null),
    ),
  );
  const costs: ToldCost[] = answers.flatMap((answer) => answer?.costs ?? []);
  return { from, to, complete: answers.every((answer) => answer?.complete === true), costs };
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Half-open, milliseconds. The error is one sentence. */
export function readRange(
  fromText: string | undefined,
  toText: string | undefined,
  now: Millis,
): Result<{ readonly from: Millis; readonly to: Millis }, string> {
  const today = new Date(now);
  const from = fromText === undefined ? Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), 1) : Date.parse(fromText);
  const to = toText === undefined ? now + 1 : Date.parse(toText) + (DAY.test(toText) ? DAY_MS : 0);
  if (Number.isNaN(from)) return err("`from` is no day such as 2026-11-30 and no time such as 2026-11-30T12:00:00Z.");
  if (Number.isNaN(to)) return err("`to` is no day such as 2026-11-30 and no time such as 2026-11-30T12:00:00Z.");
  if (to <= from) return err("`to` must be later than `from`.");
  if (to - from > LONGEST_DAYS * DAY_MS) return err(`Ask for ${LONGEST_DAYS} days at most.`);
  return ok({ from, to });
}
