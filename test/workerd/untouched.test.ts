/**
 * What must reach no gate. A file of its own: objects that another test made would hide one that should not be there.
 */
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { deliver, gatesTouched, pullRequest } from "./worker.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockImplementation(() => undefined);
});

afterEach(() => {
  vi.restoreAllMocks();
});

const OPENED = JSON.stringify(pullRequest());

it.each<[string, () => Promise<Response>, number]>([
  ["a wrong signature", () => deliver(OPENED, { secret: "wrong" }), 401],
  ["no delivery id", () => deliver(OPENED, { headers: { "x-github-delivery": null } }), 400],
  ["an unknown event", () => deliver(OPENED, { event: "sponsorship" }), 202],
  ["an unknown action", () => deliver(JSON.stringify(pullRequest({ action: "auto_merge_enabled" }))), 202],
  ["a repository off the allow-list", () => deliver(JSON.stringify(pullRequest({ repositoryId: 102 }))), 202],
  ["a pod of such a repository", () => post("/pod/v1/102/a1/exit"), 404],
  ["a pod without a nonce", () => post("/pod/v1/101/a1/exit", {}), 404],
  ["health", () => get("/healthz"), 200],
  ["an address with nothing", () => get("/nothing"), 404],
])("%s touches no gate", async (_what, send, status) => {
  expect((await send()).status).toBe(status);
  expect(await gatesTouched()).toBe(0);
});

it("what is acted on does: the count can tell", async () => {
  expect((await deliver(OPENED)).status).toBe(202);
  expect(await gatesTouched()).toBe(1);
});

async function get(path: string): Promise<Response> {
  return exports.default.fetch(new Request(`https://gate.test${path}`));
}

async function post(path: string, headers: Record<string, string> = { authorization: `Bearer ${"0".repeat(32)}` }) {
  const body = JSON.stringify({ reason: "terminated", code: 1 });
  return exports.default.fetch(new Request(`https://gate.test${path}`, { method: "POST", headers, body }));
}
