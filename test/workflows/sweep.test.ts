import { describe, expect, it } from "vitest";
import type { Io } from "../../cli/command.ts";
import { sweepCommand } from "../../cli/commands/sweep.ts";

const OIDC = { ACTIONS_ID_TOKEN_REQUEST_URL: "https://token.test/?v=1", ACTIONS_ID_TOKEN_REQUEST_TOKEN: "ask" };

async function sweep(
  answers: Readonly<Record<string, number | "down">>,
  env: Readonly<Record<string, string>> = OIDC,
  said = "text",
): Promise<{ code: number; out: string; calls: readonly string[] }> {
  let out = "";
  const calls: string[] = [];
  const io: Io = {
    stdout: (text) => void (out += text),
    stderr: (text) => void (out += text),
    stdin: async () => new Uint8Array(),
    env,
    cwd: "/",
    now: () => 0,
    fetch: async (url, init) => {
      const authorization = new Headers(init?.headers).get("authorization") ?? "";
      calls.push(`${init?.method ?? "GET"} ${url} ${authorization}`.trim());
      const path = new URL(url).host === "token.test" ? "token" : new URL(url).pathname;
      const status = answers[path] ?? 200;
      if (status === "down") throw new Error("connection\nrefused");
      return path === "token" ? Response.json({ value: "jwt" }, { status }) : new Response(said, { status });
    },
  };
  return { code: await sweepCommand.run(["--url", "https://gate.test/"], io), out, calls };
}

describe("gpu-gate sweep", () => {
  it("asks for health, then shows a token for exactly this control plane", async () => {
    const { code, calls, out } = await sweep({});
    expect(code).toBe(0);
    expect(calls).toEqual([
      "GET https://gate.test/healthz",
      "GET https://token.test/?v=1&audience=https%3A%2F%2Fgate.test%2Fv1%2Fread-only bearer ask",
      "POST https://gate.test/v1/sweep Bearer jwt",
    ]);
    expect(out).toContain("::add-mask::jwt");
  });

  it("sends no token to a control plane that is not well", async () => {
    const { code, calls, out } = await sweep({ "/healthz": 503 });
    expect([code, calls.length]).toEqual([1, 1]);
    expect(out).toContain("::error title=Sweep::GET /healthz answered 503.");
  });

  it.each([
    ["nobody answers", { "/healthz": "down" }, 1],
    ["the sweep is refused", { "/v1/sweep": 401 }, 1],
    ["the control plane is too old to have the route", { "/v1/sweep": 404 }, 1],
    ["GitHub gives no token", { token: 500 }, 1],
  ] as const)("%s", async (_what, answers, code) => {
    const run = await sweep(answers);
    expect(run.code).toBe(code);
    // An error's own line breaks cannot begin another command.
    for (const line of run.out.split("\n")) expect(line).not.toBe("refused");
  });

  it("is red when the sweep had to do cron's work, and green when cron is alive", async () => {
    const swept = await sweep({}, OIDC, '{"swept":true,"duties":[]}');
    expect(swept.code).toBe(1);
    expect(swept.out).toContain("::error title=Sweep::Cron does not tick");
    expect((await sweep({}, OIDC, '{"swept":false,"duties":[]}')).code).toBe(0);
  });

  it("without a token only the health counts", async () => {
    expect(await sweep({}, {})).toMatchObject({ code: 0, calls: ["GET https://gate.test/healthz"] });
  });
});
