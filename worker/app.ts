/**
 * The routes: which path goes to which concern, and what every answer carries. No decision is made here.
 */
import { Hono } from "hono";
import { checkHealth } from "./health.ts";
import { isOperator } from "./operator.ts";
import { statusPage } from "./page.ts";
import { receivePodCall } from "./pod-calls.ts";
import type { AppPorts } from "./ports.ts";
import { readStatus } from "./status.ts";
import { receiveWebhook } from "./webhooks.ts";
import { mountWorkflowApi } from "./workflow-api.ts";

/** The one answer to everything that is not there, not public, or not for this caller. */
const NOTHING_HERE = "There is nothing at this address.";

/** `portsOf` gives the ports for the environment of a request. */
export function createApp(portsOf: (env: Env) => AppPorts): Hono<{ Bindings: Env }> {
  const app = new Hono<{ Bindings: Env }>();

  app.use(async (context, next) => {
    await next();
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) {
      if (!context.res.headers.has(name)) context.res.headers.set(name, value);
    }
  });

  app.post("/github/webhooks", async (context) => {
    const answer = await receiveWebhook(context.req.raw, portsOf(context.env));
    return context.text(answer.text, answer.status);
  });

  app.post("/pod/v1/:repositoryId/:attemptId/:what", async (context) => {
    switch (await receivePodCall(context.req.raw, context.req.param(), portsOf(context.env))) {
      case "taken":
        return context.body(null, 204);
      case "refused":
        return context.text(NOTHING_HERE, 404);
      case "no-answer":
        return context.text("The gate did not answer; call again.", 503);
    }
  });

  app.get("/healthz", async (context) => {
    const health = await checkHealth(portsOf(context.env));
    return context.json(health, health.ok ? 200 : 503);
  });

  app.get("/api/status", async (context) => {
    const ports = portsOf(context.env);
    if (!ports.settings.ok) return context.text(NOTHING_HERE, 404);
    const open = ports.settings.value.statusPage || (await isOperator(context.req.raw, ports.settings.value));
    if (!open) return context.text(NOTHING_HERE, 404);
    return context.json(await readStatus(ports.settings.value, ports));
  });

  app.get("/", async (context) => {
    const ports = portsOf(context.env);
    if (!ports.settings.ok || !ports.settings.value.statusPage) return context.text(NOTHING_HERE, 404);
    const page = statusPage(await readStatus(ports.settings.value, ports), ports.settings.value.githubWebUrl);
    return context.body(page.text, 200, {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": page.contentSecurityPolicy,
    });
  });

  mountWorkflowApi(app);

  app.notFound((context) => context.text(NOTHING_HERE, 404));

  app.onError((error, context) => {
    // The message may hold anything: it goes to the log, never to the caller.
    portsOf(context.env).log({ event: "worker.error", path: context.req.path, message: error.message });
    return context.text("Something went wrong here; the log of this deployment says what.", 500);
  });

  return app;
}

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "Strict-Transport-Security": "max-age=31536000",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};
