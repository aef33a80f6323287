import { DurableObject } from "cloudflare:workers";
export class RepositoryGate extends DurableObject<Env> {}
