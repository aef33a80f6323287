/**
 * Where requests and the secrets in them go: every address that comes from configuration, from the environment, from an
 * answer or from a payload. A secret goes to the one server it is for, over TLS, and along no redirect.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { githubGet } from "../../cli/github-get.ts";
import { userGitHub } from "../../cli/user-github.ts";
import type { Io } from "../../cli/command.ts";
import { readSettings } from "../../durable-objects/settings.ts";
import { addressProblem, isPrivateHost } from "../../shared/addresses.ts";
import { createGitHubAppClient } from "../../shared/github/app-client.ts";
import { createTokenKeys } from "../../shared/oidc/jwks.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import { resolveImage } from "../../shared/runpod/image.ts";
import { gpuGate } from "../hosted/io.ts";
import { filesUnder, read } from "../house/source.ts";
import { API, json, rawJson, stubApp, stubClient, TOKEN } from "../github/stub.ts";

const EVIL = "https://evil.test";
const KEY = "canary-token-that-goes-nowhere-else-03";

interface Sent {
  readonly url: string;
  readonly authorization: string | null;
  readonly redirect: RequestInit["redirect"];
  readonly body: string;
}

/** A fetch that writes down what it is asked, and answers. */
function spy(answer: (url: string, nth: number) => Response): { readonly fetch: FetchLike; readonly sent: Sent[] } {
  const sent: Sent[] = [];
  return {
    sent,
    fetch: async (url, init) => {
      const body = typeof init?.body === "string" ? init.body : "";
      sent.push({
        url,
        authorization: new Headers(init?.headers).get("authorization"),
        redirect: init?.redirect,
        body,
      });
      return answer(url, sent.length);
    },
  };
}

const redirect = (to: string, status = 307) => new Response(null, { status, headers: { location: to } });
const io = (fetch: FetchLike, env: Io["env"]): Io => ({
  stdout: () => undefined,
  stderr: () => undefined,
  stdin: async () => new Uint8Array(),
  env,
  cwd: "/",
  fetch,
  now: () => 0,
});

const clock = { now: () => 0 };
const repository = { owner: "octo", name: "engine" };

/** Every client with a secret, asking once. */
const CLIENTS: Readonly<Record<string, (fetch: FetchLike) => Promise<unknown>>> = {
  "the App": (fetch) => createGitHubAppClient(stubApp({ fetch })).getApp(),
  "the repository's client": (fetch) => {
    const { client } = stubClient({});
    void client;
    return stubApp({ fetch }).asRepository(
      { id: "101", ...repository, installationId: "77" },
      { operation: "x", method: "POST", path: "/repos/octo/engine/check-runs", body: { a: 1 } },
    );
  },
  RunPod: (fetch) =>
    createRunPodClient({
      apiKey: KEY,
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      fetch,
      clock,
      userAgent: "x",
    }).listPods(),
  "RunPod's balance": (fetch) =>
    createRunPodClient({
      apiKey: KEY,
      baseUrl: "https://runpod.test",
      graphqlUrl: "https://runpod.test/graphql",
      fetch,
      clock,
      userAgent: "x",
    }).balance(),
  "a maintainer's GitHub": (fetch) => userGitHub(io(fetch, { GITHUB_API_URL: API }), KEY, repository).getPull(7),
  "a hosted job's GitHub": (fetch) =>
    githubGet(io(fetch, { GITHUB_API_URL: API, GH_TOKEN: KEY }))("/repos/octo/engine"),
  "the operator's calls": (fetch) =>
    gpuGate(["pause"], { env: { GPU_GATE_URL: "https://gate.test", GPU_GATE_OPERATOR_TOKEN: KEY }, fetch }),
  "the cost report": (fetch) =>
    gpuGate(["costs"], { env: { GPU_GATE_URL: "https://gate.test", GPU_GATE_OPERATOR_TOKEN: KEY }, fetch }),
  "the sweep": (fetch) =>
    gpuGate(["sweep", "--url", "https://gate.test"], {
      env: { ACTIONS_ID_TOKEN_REQUEST_URL: "https://token.test/x?y=1", ACTIONS_ID_TOKEN_REQUEST_TOKEN: KEY },
      fetch: (url, init) => (url.endsWith("/healthz") ? Promise.resolve(new Response("{}")) : fetch(url, init)),
    }),
  "the issuer's keys": (fetch) => createTokenKeys("https://issuer.test", { fetch, clock }).verify("a.b.c"),
};

describe("a redirect", () => {
  it.each(Object.entries(CLIENTS))("to another server: %s does not go there", async (_name, ask) => {
    for (const to of [
      `${EVIL}/x`,
      "http://github.test/x",
      "https://github.test.evil.test/",
      "//evil.test/x",
      "https://169.254.169.254/latest/meta-data",
    ]) {
      const { fetch, sent } = spy(() => redirect(to));
      await ask(fetch).catch(() => undefined);
      for (const { url, redirect: how } of sent) {
        expect(url).not.toMatch(/evil\.test|^http:|169\.254/);
        // The platform must not follow it either.
        expect(how).toBe("manual");
      }
    }
  });

  it("to the same server is followed with the method and the body, three times at most", async () => {
    const { fetch, sent } = spy((_url, nth) =>
      nth === 1 ? json({ token: TOKEN, expires_at: "2026-12-01T00:00:00Z" }) : redirect(`/r/${nth}`),
    );
    const app = stubApp({ fetch });
    await app.asRepository(
      { id: "101", ...repository, installationId: "77" },
      { operation: "x", method: "POST", path: "/repos/octo/engine/check-runs", body: { a: 1 } },
    );
    const posts = sent.slice(1);
    expect(posts.length).toBeLessThanOrEqual(8);
    expect(posts.every(({ url, body }) => url.startsWith(API) && body === '{"a":1}')).toBe(true);
  });
});

describe("an address inside an answer", () => {
  it("the next page's link names a page, never a place", async () => {
    const full = JSON.stringify(
      Array.from({ length: 100 }, (_unused, id) => ({
        id: id + 1,
        app_id: 1,
        account: null,
        repository_selection: "all",
        permissions: {},
        events: [],
      })),
    );
    const { fetch, sent } = spy((_url, nth) =>
      rawJson(nth > 3 ? "[]" : full, { headers: { link: `<${EVIL}/app/installations?page=2>; rel="next"` } }),
    );
    await createGitHubAppClient(stubApp({ fetch })).listInstallations();
    expect(sent.length).toBeGreaterThan(1);
    expect(sent.every(({ url }) => url.startsWith(`${API}/app/installations?`))).toBe(true);
  });

  it("a delivery's cursor is a value, whatever it holds", async () => {
    const { fetch, sent } = spy(() =>
      rawJson("[]", { headers: { link: `<${EVIL}/?cursor=a%26x%3D1%23%2F..%2F>; rel="next"` } }),
    );
    const client = createGitHubAppClient(stubApp({ fetch }));
    const first = await client.listHookDeliveries();
    const cursor = first.ok ? first.value.nextCursor : "";
    await client.listHookDeliveries({ cursor });
    const last = new URL(sent.at(-1)?.url ?? "");
    expect([last.origin, last.pathname, last.searchParams.get("cursor")]).toEqual([
      API,
      "/app/hook/deliveries",
      "a&x=1#/../",
    ]);
  });

  it.each([
    "http://images.test/token",
    "https://127.0.0.1/token",
    "https://[::1]/token",
    "https://169.254.169.254/token",
    "https://10.1.2.3/token",
    "https://metadata.google.internal/token",
    "https://localhost/token",
    "https://0x7f000001/token",
    "https://2130706433/token",
    "https://127.1/token",
    "https://printer.local./token",
  ])("a registry's word sends nobody to %s", async (realm) => {
    const { fetch, sent } = spy(
      () => new Response(null, { status: 401, headers: { "www-authenticate": `Bearer realm="${realm}",service="s"` } }),
    );
    const answer = await resolveImage({ registryUrl: "https://images.test", fetch, userAgent: "x" });
    expect(answer).toMatchObject({ ok: false, error: { why: "foreign-token-server" } });
    expect(sent).toHaveLength(1);
  });

  it("the registry's token goes back to the registry, and nothing else goes to its token server", async () => {
    const { fetch, sent } = spy((url) =>
      url.startsWith("https://auth.images.test")
        ? json({ token: "anonymous-pull" })
        : new Response(null, {
            status: 401,
            headers: { "www-authenticate": 'Bearer realm="https://auth.images.test/token",service="s"' },
          }),
    );
    await resolveImage({ registryUrl: "https://images.test", fetch, userAgent: "x" });
    expect(sent.map(({ url, authorization }) => [new URL(url).host, authorization])).toEqual([
      ["images.test", null],
      ["auth.images.test", null],
      ["images.test", "Bearer anonymous-pull"],
    ]);
  });
});

describe("an address in the configuration", () => {
  it.each([
    ["http://api.github.com", "must begin with https://"],
    ["http://10.0.0.1:8080", "must begin with https://"],
    ["http://localhost.evil.test", "must begin with https://"],
    ["http://127.0.0.1.evil.test", "must begin with https://"],
    ["https://user:secret@api.github.com", "must not carry a name or a password"],
    ["https://api.github.com/?x=", "must end before any ? or #"],
    ["https://api.github.com#", null],
    ["ftp://api.github.com", "is no https address"],
    ["javascript:alert(1)", "is no https address"],
    ["//api.github.com", "is no https address"],
    ["", "is no https address"],
    ["https://api.github.com", null],
    ["https://ghe.corp.test/api/v3", null],
    ["http://127.0.0.1:4000", null],
    ["http://[::1]:4000", null],
    ["http://localhost:4000", null],
  ])("%j: %s", (address, problem) => {
    expect(addressProblem(address)).toBe(problem);
  });

  it.each([
    "GITHUB_API_URL",
    "RUNPOD_API_URL",
    "RUNPOD_GRAPHQL_URL",
    "OIDC_ISSUER_URL",
    "IMAGE_REGISTRY_URL",
    "PUBLIC_URL",
    "GITHUB_WEB_URL",
  ])("the Worker does not begin with %s in the clear, and does not repeat what is in it", (name) => {
    const settings = readSettings({ [name]: "http://name:canary-in-an-address@evil.test" });
    const problems = settings.ok ? [] : settings.error;
    expect(problems.find((problem) => problem.startsWith(name))).toMatch(/must not carry/);
    expect(problems.join()).not.toContain("canary");
  });

  it.each([
    ["GITHUB_API_URL", ["recover", "7", "--repository", "octo/engine"]],
    ["GPU_GATE_URL", ["pause"]],
    ["RUNPOD_API_URL", ["sweep", "--deployment", "testing"]],
  ])("no command sends a token to %s in the clear", async (name, args) => {
    const { fetch, sent } = spy(() => new Response("{}"));
    const env = { GH_TOKEN: KEY, GPU_GATE_OPERATOR_TOKEN: KEY, RUNPOD_API_KEY: KEY, [name]: "http://gate.test" };
    const answer = await gpuGate(args, { env, fetch });
    expect([answer.code, sent]).toEqual([2, []]);
    expect(answer.err).toContain("must begin with https://");
    expect(answer.err).not.toContain(KEY);
  });

  it("the private addresses are those of this machine, of closed networks and of the link", () => {
    for (const host of [
      "127.0.0.1",
      "10.0.0.1",
      "172.16.0.1",
      "172.31.255.255",
      "192.168.1.1",
      "169.254.169.254",
      "100.64.0.1",
      "0.0.0.0",
      "224.0.0.1",
      "[fd00::1]",
      "localhost",
      "db",
      "x.internal",
    ])
      expect(isPrivateHost(host), host).toBe(true);
    for (const host of ["ghcr.io", "172.32.0.1", "8.8.8.8", "100.128.0.1", "auth.images.test"])
      expect(isPrivateHost(host), host).toBe(false);
  });
});

it("every request of the product says what it does with a redirect (source)", () => {
  const silent = ["shared", "worker", "durable-objects", "cron", "cli"]
    .flatMap((folder) => filesUnder(folder))
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) =>
      [...read(file).matchAll(/(?:await|return) (?:\w+\.)*fetch\(([\s\S]{0,600}?)\n? *\}\);/g)]
        .filter(([, call = ""]) => /authorization|headers/i.test(call) && !/redirect/.test(call))
        .map(([text]) => `${file}: ${text.slice(0, 60)}`),
    );
  expect(silent).toEqual([]);
  expect(readFileSync(join(import.meta.dirname, "..", "..", "cli", "main.ts"), "utf8")).toContain('redirect: "manual"');
});
