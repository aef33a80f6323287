import { DurableObject } from "cloudflare:workers";
export class FleetBoard extends DurableObject<Env> {}
