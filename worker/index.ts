/** Wiring only: the Worker's handlers and the Durable Object classes it exports. */
import { backstopAlone } from "../cron/backstop-alone.ts";
import { runCron } from "../cron/index.ts";
import { platformBackstop, platformCron } from "../cron/platform-ports.ts";
import { createApp } from "./app.ts";
import { mountCostsApi } from "./costs-api.ts";
import { mountExplainApi } from "./explain-api.ts";
import { mountOperatorApi } from "./operator-api.ts";
import { platformOperatorPorts } from "./platform-operator.ts";
import { platformPorts } from "./platform-ports.ts";
import { mountSweepApi } from "./workflow-sweep.ts";

export { FleetBoard } from "../durable-objects/fleet-board.ts";
export { RepositoryGate } from "../durable-objects/repository-gate.ts";
export { RunPodAccount } from "../durable-objects/runpod-account.ts";

const app = createApp(platformPorts);
mountCostsApi(app, platformOperatorPorts);
mountExplainApi(app, platformOperatorPorts);
mountOperatorApi(app, platformOperatorPorts);
mountSweepApi(app, (env) => ({
  board: async () => platformPorts(env).board.read(),
  tick: async () => runCron(platformCron(env)),
}));

export default {
  fetch: (request, env, context) => app.fetch(request, env, context),
  scheduled: async (_controller, env) => {
    const ports = platformCron(env);
    // A faulty deploy must not let run on what was rented before it.
    await (ports === null ? backstopAlone(platformBackstop(env)) : runCron(ports));
  },
} satisfies ExportedHandler<Env>;
