import { describe, expect, it } from "vitest";
import * as z from "zod";
import { err, ok } from "../../shared/result.ts";
import type { AppPorts } from "../../worker/ports.ts";
import { ask, BOARD, ports, SETTINGS, T0 } from "./ports.ts";

const healthSchema = z.object({ ok: z.boolean(), problems: z.array(z.string()), warnings: z.array(z.string()) });

async function health(change: Partial<AppPorts>) {
  const answer = await ask(ports(change), "/healthz");
  const text = await answer.text();
  expect(text).not.toContain("a key");
  expect(text).not.toContain("runpod key");
  expect(text).not.toContain("previous");
  return { status: answer.status, ...healthSchema.parse(JSON.parse(text)) };
}

describe("health", () => {
  it("is green when everything is there and cron was seen", async () => {
    expect(await health({})).toEqual({ status: 200, ok: true, problems: [], warnings: [] });
  });

  it("says every configuration problem", async () => {
    const problems = ["GITHUB_APP_ID is missing.", "RUNPOD_API_KEY is missing."];
    expect(await health({ settings: err(problems) })).toMatchObject({ status: 503, ok: false, problems });
  });

  it("is red with the reason when the App's key cannot sign", async () => {
    const message = "The App's private key cannot be used: the key is empty.";
    const answer = await health({ checkKey: async () => err({ reason: "missing", message }) });
    expect(answer).toMatchObject({ status: 503, problems: [message] });
  });

  it.each([
    ["PUBLIC_URL", { ...SETTINGS, publicUrl: "" }],
    ["GITHUB_ALLOWED_REPOSITORIES", { ...SETTINGS, allowedRepositories: new Set<string>() }],
  ])("is red when %s is empty, and names it", async (name, settings) => {
    const answer = await health({ settings: ok(settings) });
    expect(answer.status).toBe(503);
    expect(answer.problems).toEqual([expect.stringContaining(`${name} is empty`)]);
  });

  it.each([
    [300_000, 200],
    [300_001, 503],
  ])("cron last seen %i ms ago is %i", async (ago, status) => {
    const board = { ...ports().board, read: async () => ok({ ...BOARD, at: T0 - ago }) };
    expect((await health({ board })).status).toBe(status);
  });

  it("a board nobody has written yet, or that does not answer, only warns", async () => {
    const never = await health({ board: { ...ports().board, read: async () => ok(null) } });
    expect(never).toMatchObject({ status: 200, warnings: ["Cron has not run yet in this deployment."] });
    const message = "the fleet board did not answer: reset";
    const mute = await health({
      board: { ...ports().board, read: async () => err({ reason: "no-answer", message }) },
    });
    expect(mute).toMatchObject({ status: 200, warnings: [`${message}.`] });
  });

  it("a duty that failed at the last tick is a warning", async () => {
    const duties = [{ name: "reap", ok: false, ms: 3, what: "no list" }];
    const answer = await health({ board: { ...ports().board, read: async () => ok({ ...BOARD, duties }) } });
    expect(answer).toMatchObject({ status: 200, warnings: ['Cron\'s duty "reap" failed at the last tick: no list'] });
  });
});
