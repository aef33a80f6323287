import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
describe("worker", () => {
  it("answers", async () => {
    const res = await exports.default.fetch(new Request("https://gate.test/"));
    expect(res.status).toBe(200);
  });
});
