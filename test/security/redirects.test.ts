/** Open redirects and split headers: no route sends a caller elsewhere, and no caller's text becomes a header of an answer. */
import { describe, expect, it } from "vitest";
import { createGitHubAppClient } from "../../shared/github/app-client.ts";
import { stubApp } from "../github/stub.ts";
import { ask, ports } from "../worker/ports.ts";

const ELSEWHERE = ["https://evil.test/", "//evil.test", "/\\evil.test", "https:evil.test", "%2f%2fevil.test"];
const NAMES = ["next", "url", "return_to", "redirect_uri", "continue", "callback"];
const ROUTES = ["/", "/healthz", "/api/status", "/api/costs", "/v1/operator/pause", "/github/webhooks", "/nothing"];

describe("a redirect of ours", () => {
  it.each(ROUTES)("%s leads nowhere, whatever address the caller gives", async (route) => {
    for (const to of ELSEWHERE) {
      for (const path of [`${route}?${NAMES.map((name) => `${name}=${to}`).join("&")}`, `${route}/${to}`]) {
        for (const method of ["GET", "POST"]) {
          const answer = await ask(ports(), path, {
            method,
            headers: { referer: to, "x-forwarded-host": "evil.test" },
          });
          expect(answer.status < 300 || answer.status >= 400, path).toBe(true);
          for (const name of ["location", "refresh", "content-location", "link"]) {
            expect(answer.headers.get(name), `${name} of ${path}`).toBeNull();
          }
          expect([...answer.headers.values()].join(" ")).not.toContain("evil.test");
        }
      }
    }
  });
});

describe("a line break in a value", () => {
  it.each(["%0d%0aX-Evil:%201", "%0aX-Evil:%201", "%E5%98%8D%E5%98%8AX-Evil:1"])(
    "of an address makes no header of the answer: %s",
    async (text) => {
      for (const route of ROUTES) {
        const answer = await ask(ports(), `${route}?pr=${text}&repository=${text}`);
        expect(answer.headers.has("x-evil")).toBe(false);
        expect([...answer.headers.values()].join(" ")).not.toContain("X-Evil");
      }
    },
  );

  it("of a name of ours goes into no header of a request", async () => {
    const sent: Headers[] = [];
    const app = stubApp({
      fetch: async (_input, init) => {
        sent.push(new Headers(init?.headers));
        return new Response("{}", { status: 404 });
      },
    });
    await createGitHubAppClient(app).getApp();
    await app.asRepository(
      { id: "101", owner: "octo\r\nX-Evil: 1", name: "engine\r\nX-Evil: 1", installationId: "77" },
      { operation: "x", method: "GET", path: "/repos/octo/engine" },
    );
    expect(sent.length).toBeGreaterThan(0);
    for (const headers of sent) {
      expect(headers.has("x-evil")).toBe(false);
      expect([...headers.values()].join(" ")).not.toMatch(/[\r\n]|X-Evil/);
    }
  });
});
