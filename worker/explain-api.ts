/**
 * `GET /api/explain?repository=ID&pr=N` (or `request=`, or `pod=`): every decision as facts, rule and verdict, with times,
 * from the audit. Private like the status page unless that is switched on; the operator's token opens it always.
 */
import type { Hono } from "hono";
import * as z from "zod";
import { isOperator } from "./operator.ts";
import { knownRepositories, type OperatorPorts } from "./operator-ports.ts";

const id = z.string().regex(/^[\w-]{1,100}$/, "is no id");
const questionSchema = z.object({
  repository: z
    .string()
    .regex(/^[1-9]\d{0,19}$/, "is the numeric id of the repository")
    .optional(),
  pr: z.coerce.number().int().positive().max(2_147_483_647).optional(),
  request: id.optional(),
  pod: id.optional(),
});

export function mountExplainApi(app: Hono<{ Bindings: Env }>, portsOf: (env: Env) => OperatorPorts): void {
  app.get("/api/explain", async (context) => {
    const ports = portsOf(context.env);
    if (!ports.settings.ok) return context.notFound();
    const open = ports.settings.value.statusPage || (await isOperator(context.req.raw, ports.settings.value));
    if (!open) return context.notFound();
    const asked = questionSchema.safeParse(context.req.query());
    if (!asked.success) {
      const [issue] = asked.error.issues;
      return context.json(
        { error: `${issue?.path.join(".") ?? "the question"}: ${issue?.message ?? "unreadable"}.` },
        400,
      );
    }
    const { repository, pr, request, pod } = asked.data;
    if ([pr, request, pod].filter((one) => one !== undefined).length !== 1) {
      return context.json({ error: "Name a pull request (pr), a request or a pod, and only one." }, 400);
    }
    const question = {
      ...(pr === undefined ? {} : { prNumber: pr }),
      ...(request === undefined ? {} : { requestId: request }),
      ...(pod === undefined ? {} : { podId: pod }),
    };
    // Only repositories that are served or have bought something: a question makes no gate.
    const known = await knownRepositories(ports.settings.value, ports);
    const asking = repository === undefined ? known : known.filter((one) => one === repository);
    const answers = await Promise.all(
      asking.map(async (one) => {
        const text = await ports.gate(one).explain(question);
        return { id: one, explained: JSON.parse(text) as unknown[] };
      }),
    );
    return context.json({ at: ports.clock.now(), repositories: answers.filter((one) => one.explained.length > 0) });
  });
}
