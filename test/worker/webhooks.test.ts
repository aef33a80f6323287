import { createHash } from "node:crypto";
import { sign } from "@octokit/webhooks-methods";
import { describe, expect, it } from "vitest";
import type { Delivery } from "../../shared/lifecycle/signal.ts";
import { err, ok } from "../../shared/result.ts";
import type { AppPorts } from "../../worker/ports.ts";
import { verifyBody } from "../../worker/signature.ts";
import { ask, gate, ports, SETTINGS } from "./ports.ts";

const RENAMED = JSON.stringify({
  action: "renamed",
  repository: { id: 101, name: "engine", owner: { login: "octo" } },
  installation: { id: 77 },
});

async function deliver(given: AppPorts, secret: string, body = RENAMED, event = "repository"): Promise<Response> {
  return ask(given, "/github/webhooks", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-github-event": event,
      "x-github-delivery": "guid-1",
      "x-hub-signature-256": await sign(secret, body),
    },
    body,
  });
}

const [PRESENT = "", PREVIOUS = ""] = SETTINGS.webhookSecrets;

describe("secrets in rotation", () => {
  it.each([
    ["present", PRESENT, 202],
    ["previous", PREVIOUS, 202],
    ["older", "the one before", 401],
  ])("a delivery signed with the %s secret is $2", async (_which, secret, status) => {
    expect((await deliver(ports(), secret)).status).toBe(status);
  });

  it("the previous secret is good for nothing once it is not configured", async () => {
    const given = ports({ settings: ok({ ...SETTINGS, webhookSecrets: [PRESENT] }) });
    expect((await deliver(given, PREVIOUS)).status).toBe(401);
  });

  it("GitHub's published vector verifies", async () => {
    const header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const body = Uint8Array.from(new TextEncoder().encode("Hello, World!"));
    expect(await verifyBody(body, header, ["It's a Secret to Everybody"])).toEqual({
      kind: "text",
      text: "Hello, World!",
    });
    expect(await verifyBody(body, header, ["It's a secret to Everybody"])).toEqual({ kind: "refused" });
  });

  it("bytes that are no text verify with either secret as well", async () => {
    // HMAC-SHA256 of the one byte 0xff with the key "previous".
    const key = await crypto.subtle.importKey(
      "raw",
      new TextEncoder().encode("previous"),
      { name: "HMAC", hash: "SHA-256" },
      false,
      ["sign"],
    );
    const digest = Buffer.from(await crypto.subtle.sign("HMAC", key, Uint8Array.of(0xff))).toString("hex");
    const header = `sha256=${digest}`;
    expect(await verifyBody(Uint8Array.of(0xff), header, ["present", "previous"])).toEqual({ kind: "not-text" });
    expect(await verifyBody(Uint8Array.of(0xff), header, ["present"])).toEqual({ kind: "refused" });
  });
});

describe("handing over", () => {
  it("gives the gate of the repository's id the delivery, with the event's own guid", async () => {
    const heard: [string, Delivery][] = [];
    const given = ports({
      gate: (id) =>
        gate({
          accept: async (delivery) => {
            heard.push([id, delivery]);
            return { kind: "accepted", actions: [] };
          },
        }),
    });
    expect((await deliver(given, PRESENT)).status).toBe(202);
    expect(heard).toEqual([
      [
        "101",
        {
          guid: "guid-1",
          event: "repository",
          repository: { id: "101", owner: "octo", name: "engine" },
          installationId: "77",
          signal: { kind: "repository", action: "renamed" },
          bodyHash: createHash("sha256").update(RENAMED).digest("hex"),
        },
      ],
    ]);
  });

  it("an id beyond 2^53 reaches its own gate, not its neighbour's", async () => {
    const asked: string[] = [];
    const given = ports({
      settings: ok({ ...SETTINGS, allowedRepositories: new Set(["9007199254740993"]) }),
      gate: (id) => {
        asked.push(id);
        return gate();
      },
    });
    await deliver(given, PRESENT, RENAMED.replace('"id":101', '"id":9007199254740993'));
    await deliver(given, PRESENT, RENAMED.replace('"id":101', '"id":9007199254740992'));
    expect(asked).toEqual(["9007199254740993"]);
  });

  it("one gate of several that does not answer is 503, and the others have it", async () => {
    const body = JSON.stringify({
      action: "added",
      installation: { id: 77 },
      repositories_added: [101, 102].map((id) => ({ id, name: `r${id}`, full_name: `octo/r${id}` })),
    });
    const reached: string[] = [];
    const given = ports({
      settings: ok({ ...SETTINGS, allowedRepositories: new Set(["101", "102"]) }),
      gate: (id) =>
        gate({
          accept: async () => {
            if (id === "101") throw new Error("the object was reset");
            reached.push(id);
            return { kind: "accepted", actions: [] };
          },
        }),
    });
    const answer = await deliver(given, PRESENT, body, "installation_repositories");
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain("reset");
    expect(reached).toEqual(["102"]);
    expect(given.logged).toContainEqual(
      expect.objectContaining({ event: "webhook.gate-failed", repository: "101", message: "the object was reset" }),
    );
  });

  it("without configuration every delivery is 503, to be delivered again", async () => {
    const given = ports({ settings: err(["GITHUB_WEBHOOK_SECRET is missing."]) });
    const answer = await deliver(given, PRESENT);
    expect(answer.status).toBe(503);
    expect(await answer.text()).toContain("/healthz");
  });

  it("what nobody planned for is 500 without its message", async () => {
    const given = ports({
      gate: () => {
        throw new Error("secret detail");
      },
      log: () => undefined,
    });
    const answer = await ask(
      { ...given, board: { ...given.board, read: () => Promise.reject(new Error("x y z")) } },
      "/healthz",
    );
    expect(answer.status).toBe(500);
    expect(await answer.text()).toBe("Something went wrong here; the log of this deployment says what.");
  });
});
