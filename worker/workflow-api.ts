/**
 * The workflow API under `/v1`: for hosted jobs, which show GitHub's OIDC token and nothing else (docs/workflow-api.md).
 *
 * Routes only. What a call may do is decided in `workflow-caller.ts`, what it does in the files beside it.
 */
import type { Context, Hono } from "hono";
import { unavailable, type WorkflowAnswer } from "./workflow-answer.ts";
import { receiveClassify, receiveProbe } from "./workflow-lanes.ts";
import { platformWorkflowPorts, type WorkflowPorts } from "./workflow-ports.ts";
import { receiveProgress, receiveRecover, receiveValidate } from "./workflow-requests.ts";

type Route = (context: Context<{ Bindings: Env }>, ports: WorkflowPorts) => Promise<WorkflowAnswer>;

/** Adds the routes to `app`. `portsOf` gives the ports for the environment of a request. */
export function mountWorkflowApi(
  app: Hono<{ Bindings: Env }>,
  portsOf: (env: Env) => WorkflowPorts = platformWorkflowPorts,
): void {
  const on = workflowRoutes(app, portsOf);
  on("POST", "/v1/recover", (context, ports) => receiveRecover(context.req.raw, ports));
  on("POST", "/v1/validate", (context, ports) => receiveValidate(context.req.raw, ports));
  on("GET", "/v1/requests/:id", (context, ports) =>
    receiveProgress(context.req.raw, context.req.param("id") ?? "", ports),
  );
  on("POST", "/v1/classify", (context, ports) => receiveClassify(context.req.raw, ports));
  on("POST", "/v1/probe", (context, ports) => receiveProbe(context.req.raw, ports));
}

/** How a route of this API is added: answers are data, a gate's silence is an answer, and a 401 says what to show. */
export function workflowRoutes(
  app: Hono<{ Bindings: Env }>,
  portsOf: (env: Env) => WorkflowPorts,
): (method: "GET" | "POST", path: string, route: Route) => void {
  return (method, path, route) => {
    app.on(method, path, async (context) => {
      const ports = portsOf(context.env);
      const answer = await answered(route, context, ports);
      if (answer.retryAfterSeconds !== undefined) context.header("Retry-After", String(answer.retryAfterSeconds));
      if (answer.status === 401) context.header("WWW-Authenticate", "Bearer");
      return context.json(answer.body, answer.status);
    });
  };
}

/** A gate that does not answer is the one failure that arrives as an exception. */
async function answered(
  route: Route,
  context: Context<{ Bindings: Env }>,
  ports: WorkflowPorts,
): Promise<WorkflowAnswer> {
  try {
    return await route(context, ports);
  } catch (error) {
    const message = error instanceof Error ? error.message : "unknown error";
    ports.log({ event: "workflow-api.failed", path: context.req.path.slice(0, 100), message });
    return unavailable("The gate did not answer.");
  }
}
