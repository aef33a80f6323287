/**
 * The client as it is deployed: bundled, in a workerd that has none of Node's modules. The workerd test project cannot
 * show this, because its runner switches Node's modules on.
 */

import { build } from "esbuild";
import { Miniflare, Response as MiniflareResponse, type Request as MiniflareRequest } from "miniflare";
import { expect, it } from "vitest";
import { leaksOnPurpose } from "../support/watch.ts";
import { PKCS1 } from "./stub.ts";

// The bundle under test has the key inside.
leaksOnPurpose(/ in what esbuild prints$/);

const SCRIPT = `
import { createGitHubApp } from "./shared/github/app.ts";
import { createGitHubClient } from "./shared/github/client.ts";
export default {
  async fetch() {
    const app = createGitHubApp(
      { appId: "1234", privateKey: PRIVATE_KEY, apiUrl: "https://github.test" },
      { fetch, clock: { now: () => Date.now() } },
    );
    if (!app.ok) return Response.json(app);
    const repository = { id: "101", owner: "octo", name: "engine", installationId: "77" };
    const client = createGitHubClient({ app: app.value, repository, runners: { kind: "repository" } });
    return Response.json(await client.getRepository());
  },
};`;

/** The bundle wrangler would make: its conditions, none of its Node layers. */
async function bundled(): Promise<string> {
  const bundle = await build({
    stdin: { contents: SCRIPT, resolveDir: process.cwd(), loader: "ts" },
    define: { PRIVATE_KEY: JSON.stringify(PKCS1) },
    bundle: true,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    mainFields: ["browser", "module", "main"],
    write: false,
    logLevel: "silent",
  });
  return bundle.outputFiles[0]?.text ?? "";
}

function gitHub(request: MiniflareRequest): MiniflareResponse {
  if (request.url.endsWith("/access_tokens")) {
    return MiniflareResponse.json({ token: "ghs_bundled", expires_at: "2999-01-01T00:00:00Z" }, { status: 201 });
  }
  return request.headers.get("authorization") === "token ghs_bundled"
    ? MiniflareResponse.json({ id: 101, full_name: "octo/engine", default_branch: "main", archived: false })
    : MiniflareResponse.json({ message: "Bad credentials" }, { status: 401 });
}

it("works in workerd without nodejs_compat, with the key as GitHub hands it out", async () => {
  const worker = new Miniflare({
    host: "127.0.0.1",
    cf: false,
    enableDevRegistry: false,
    telemetry: { enabled: false },
    workers: [
      {
        config: {
          name: "client",
          compatibilityDate: "2026-11-01",
          manifest: { mainModule: "index.js", modules: { "index.js": { type: "esm", contents: await bundled() } } },
        },
        dev: { outboundService: { type: "fetcher", handler: gitHub } },
      },
    ],
  });
  try {
    const answer = await worker.dispatchFetch("https://gate.test/");
    expect(await answer.json()).toEqual({
      ok: true,
      value: { id: "101", fullName: "octo/engine", defaultBranch: "main", archived: false },
    });
  } finally {
    await worker.dispose();
  }
});
