import { DurableObject } from "cloudflare:workers";
export class RunPodAccount extends DurableObject<Env> {}
