/** Headers of our requests: nothing that others or a slip of the hand have written becomes a second one, or none at all. */
import { describe, expect, it } from "vitest";
import { readSettings } from "../../durable-objects/settings.ts";
import { isHeaderWord, NO_HEADER_WORD } from "../../shared/header-word.ts";
import { createRunPodClient } from "../../shared/runpod/client.ts";
import type { FetchLike } from "../../shared/ports.ts";
import { gpuGate } from "../hosted/io.ts";
import { ask, ports } from "../worker/ports.ts";

/** Each would end a header, begin another, or be refused by `fetch` as no header at all. */
const UNFIT = [
  "a\r\nX-Evil: 1",
  "a\nX-Evil: 1",
  "a\rb",
  "a b",
  "a\u0000b",
  "a\tb",
  "ключ",
  "é",
  "a\u2028b",
  "\u{1f511}",
];
const shown = UNFIT.map((text) => [JSON.stringify(text), text] as const);

const ENV = {
  DEPLOYMENT: "test",
  GITHUB_APP_ID: "1234",
  GITHUB_APP_PRIVATE_KEY: "canary-the-key-of-the-app",
  GITHUB_WEBHOOK_SECRET: "canary-webhook-secret",
  GITHUB_ALLOWED_REPOSITORIES: "101",
  GITHUB_API_URL: "https://github.test",
  GITHUB_WEB_URL: "https://github.test",
  RUNPOD_API_KEY: "canary-the-key-of-runpod",
  RUNPOD_API_URL: "https://runpod.test",
  RUNPOD_GRAPHQL_URL: "https://runpod.test/graphql",
  OIDC_ISSUER_URL: "https://issuer.test",
  IMAGE_REGISTRY_URL: "https://registry.test",
  PUBLIC_URL: "https://gate.test",
  STATUS_PAGE: "off",
  DEPLOYMENT_LIMITS: "",
};
const LONG = "t".repeat(40);

describe("a setting that goes into a header", () => {
  const names = ["DEPLOYMENT", "GITHUB_APP_ID", "RUNPOD_API_KEY", "OPERATOR_TOKEN", "PUBLIC_URL", "GITHUB_API_URL"];

  it.each(names.flatMap((name) => shown.map(([said, text]) => [name, said, text] as const)))(
    "%s = ...%s is a problem of the setting, and not a provider that cannot be reached",
    (name, _said, text) => {
      const value = name.endsWith("_URL")
        ? `https://gate.test/${text}`
        : `${name === "OPERATOR_TOKEN" ? LONG : ""}${text}`;
      const read = readSettings({ ...ENV, [name]: value });
      expect(read.ok).toBe(false);
      if (!read.ok) {
        expect(read.error).toEqual([expect.stringMatching(new RegExp(`^${name} `))]);
        expect(read.error.join()).not.toContain("Evil");
      }
    },
  );

  it("is taken without what a shell leaves around it", () => {
    const read = readSettings({
      ...ENV,
      RUNPOD_API_KEY: " rpa_abc\n",
      OPERATOR_TOKEN: `${LONG}\r\n`,
      GITHUB_APP_ID: "7\n",
    });
    expect(read).toMatchObject({ ok: true, value: { runpodApiKey: "rpa_abc", operatorToken: LONG, appId: "7" } });
    expect(readSettings({ ...ENV, RUNPOD_API_KEY: " \n" })).toMatchObject({ ok: false });
    expect(readSettings({ ...ENV, OPERATOR_TOKEN: "" })).toMatchObject({ ok: true });
  });
});

describe("a token that a person has set", () => {
  const calls = [
    ["GPU_GATE_OPERATOR_TOKEN", ["costs", "--url", "https://gate.test"]],
    ["GH_TOKEN", ["recover", "7", "--repository", "octo/engine"]],
    ["RUNPOD_API_KEY", ["sweep", "--deployment", "test"]],
  ] as const;

  it.each(calls.flatMap(([name, args]) => shown.map(([said, text]) => [name, said, text, args] as const)))(
    "%s = %s is sent nowhere, and the reason is said",
    async (name, _said, text, args) => {
      const asked: string[] = [];
      const fetch: FetchLike = async (input) => {
        asked.push(input);
        return new Response("{}");
      };
      const answer = await gpuGate(args, { env: { [name]: text }, fetch });
      expect(asked).toEqual([]);
      expect(answer.code).not.toBe(0);
      expect(answer.err).toContain(`${name} ${NO_HEADER_WORD}`);
      expect(answer.out + answer.err).not.toContain("Evil");
    },
  );
});

describe("a request to RunPod", () => {
  it.each(shown)("is not sent at all with %s in its key or its name, and says so as data", async (_said, text) => {
    // A space may stand in a User-Agent.
    if (text === "a b" || text === "a\tb" || text === "é") return;
    for (const [apiKey, userAgent] of [
      [text, "gpu-gate"],
      ["key", text],
    ] as const) {
      const sent: Request[] = [];
      const fetch: FetchLike = async (input, init) => {
        sent.push(new Request(input, init));
        return new Response("{}");
      };
      const client = createRunPodClient({
        apiKey,
        userAgent,
        baseUrl: "https://runpod.test",
        graphqlUrl: "https://runpod.test/graphql",
        fetch,
        clock: { now: () => 0 },
      });
      expect(await client.listPods()).toMatchObject({ ok: false });
      expect(await client.deletePod("p1")).toMatchObject({ kind: "failure" });
      expect(sent).toEqual([]);
    }
  });
});

describe("a delivery's own headers", () => {
  it.each(["a b", "é", "a:b", "<b>", "x".repeat(101), "a%0d%0ab"])(
    "of the value %j are repeated nowhere before the signature holds",
    async (text) => {
      for (const name of ["x-github-delivery", "x-github-event"]) {
        const answer = await ask(ports(), "/github/webhooks", {
          method: "POST",
          headers: { "content-type": "application/json", [name]: text },
          body: "{}",
        });
        expect(answer.status).toBe(401);
        expect(`${[...answer.headers.values()].join(" ")} ${await answer.text()}`).not.toContain(text);
      }
    },
  );
});

it("knows one word from more", () => {
  for (const text of [...UNFIT, "", " "]) expect([text, isHeaderWord(text)]).toEqual([text, false]);
  for (const text of ["rpa_Abc-9.x~", "a", "Zm9v/+=="]) expect([text, isHeaderWord(text)]).toEqual([text, true]);
});
