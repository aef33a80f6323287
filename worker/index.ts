import { Hono } from "hono";
export { RepositoryGate } from "../durable-objects/repository-gate.ts";
export { RunPodAccount } from "../durable-objects/runpod-account.ts";
export { FleetBoard } from "../durable-objects/fleet-board.ts";
const app = new Hono<{ Bindings: Env }>();
app.get("/", (c) => c.text("gpu-gate"));
export default { fetch: app.fetch } satisfies ExportedHandler<Env>;
