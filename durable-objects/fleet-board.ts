/**
 * `FleetBoard`: one text, what cron saw at its last tick over all repositories. The only object built with itty-durable
 * (docs/adr/0002-fleet-board-on-itty-durable.md): soft, rebuilt every minute, one writer, no alarm, no secrets.
 *
 * Nothing may depend on it. Its whole content is written and read at once through `board-client.ts`; nobody else speaks
 * to it, and no request of a client is ever passed on to it.
 */
// The package's main file is CommonJS that requires ES modules; this file is an ES module by itself.
import { createDurable } from "itty-durable/itty-durable.js";

/** The library would call any method by its name in the path, `destroy` included: these two are let through. */
const CALLS: ReadonlySet<string> = new Set(["/do/call/read", "/do/call/write"]);

export class FleetBoard extends createDurable() {
  text: string | null = null;

  constructor(state: DurableObjectState) {
    // No environment: the library would copy every secret of it into the object.
    super(state, {});
  }

  override async fetch(request: Request): Promise<Response> {
    if (!CALLS.has(new URL(request.url).pathname)) return new Response("The board has no such call.", { status: 404 });
    const answer: unknown = await super.fetch(request);
    return answer instanceof Response ? answer : new Response("The board did not answer.", { status: 500 });
  }

  read(): { readonly text: string | null } {
    return { text: this.text };
  }

  async write(text: string): Promise<{ readonly written: true }> {
    this.text = text;
    // Awaited here: the library's own automatic way would not wait for it.
    await this.persist();
    return { written: true };
  }
}
