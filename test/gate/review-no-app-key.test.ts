/** A deployment whose App key cannot be used still deletes its pods: a client without a key fails, it does not throw. */
import { expect, test } from "vitest";
import { githubClientFor } from "../../durable-objects/platform.ts";
import type { Settings } from "../../durable-objects/settings.ts";

test("without a usable key every call is a failure with a reason", async () => {
  const settings = { appId: "1", appPrivateKey: "", githubApiUrl: "https://api.github.test" } as Settings;
  const client = githubClientFor(settings)({ id: "101", owner: "a", name: "b" }, null, { kind: "repository" });
  expect(await client.getPull(7)).toMatchObject({ ok: false, error: { reason: "unauthorized" } });
});
