import { describe, expect, it } from "vitest";
import { describeFailure, failureClass, failureFromAnswer, type GitHubFailure } from "../../shared/github/failure.ts";
import { T0 } from "./stub.ts";

function failure(
  status: number,
  headers: Record<string, string> = {},
  body: unknown = { message: "No." },
): GitHubFailure {
  return failureFromAnswer({ status, headers: new Headers(headers), text: JSON.stringify(body) }, T0);
}

const resetAt = T0 + 1_234_000;
const exhausted = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(resetAt / 1_000) };

describe("failureFromAnswer", () => {
  it.each<[string, GitHubFailure, GitHubFailure]>([
    ["401", failure(401), { reason: "unauthorized", message: "No." }],
    ["403", failure(403), { reason: "forbidden", acceptedPermissions: null, message: "No." }],
    [
      "403 with the wanted permission",
      failure(403, { "x-accepted-github-permissions": "checks=write" }),
      { reason: "forbidden", acceptedPermissions: "checks=write", message: "No." },
    ],
    ["404", failure(404), { reason: "not-found" }],
    ["408", failure(408), { reason: "server", status: 408 }],
    ["409", failure(409), { reason: "conflict", message: "No." }],
    ["410", failure(410), { reason: "gone" }],
    ["422", failure(422), { reason: "unprocessable", message: "No." }],
    ["400", failure(400), { reason: "unprocessable", message: "No." }],
    ["451", failure(451), { reason: "gone" }],
    ["500", failure(500), { reason: "server", status: 500 }],
    ["503", failure(503), { reason: "server", status: 503 }],
    ["304 that nobody asked for", failure(304), { reason: "unreadable", what: "status 304" }],
  ])("reads %s", (_name, actual, expected) => {
    expect(actual).toEqual(expected);
  });

  it.each<[string, GitHubFailure, number, "primary" | "secondary"]>([
    ["403 with remaining 0: until the reset", failure(403, exhausted), resetAt, "primary"],
    ["429 with remaining 0: until the reset", failure(429, exhausted), resetAt, "primary"],
    ["403 with retry-after seconds", failure(403, { "retry-after": "17" }), T0 + 17_000, "secondary"],
    ["429 with retry-after seconds", failure(429, { "retry-after": "0" }), T0, "secondary"],
    [
      "429 with a retry-after date",
      failure(429, { "retry-after": "Mon, 30 Nov 2026 12:02:30 GMT" }),
      T0 + 150_000,
      "secondary",
    ],
    ["retry-after before the reset", failure(403, { ...exhausted, "retry-after": "5" }), T0 + 5_000, "primary"],
    ["429 without any header: a minute", failure(429), T0 + 60_000, "secondary"],
    ["429 with an unreadable retry-after: a minute", failure(429, { "retry-after": "soon" }), T0 + 60_000, "secondary"],
    [
      "403 whose text alone tells of a secondary limit: a minute",
      failure(403, { "x-ratelimit-remaining": "4000" }, { message: "You have exceeded a secondary rate limit." }),
      T0 + 60_000,
      "secondary",
    ],
    [
      "a reset that has passed: a minute, no busy loop",
      failure(403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(T0 / 1_000 - 5) }),
      T0 + 60_000,
      "primary",
    ],
  ])("waits: %s", (_name, actual, retryAtMs, scope) => {
    expect(actual).toEqual({ reason: "rate-limited", retryAtMs, scope });
  });

  it("adds the texts of `errors`, whatever shape they have", () => {
    const body = { message: "Validation Failed", errors: ["first", { message: "second" }, { code: "third" }, {}] };
    expect(failure(422, {}, body)).toEqual({
      reason: "unprocessable",
      message: "Validation Failed: first: second: third",
    });
  });

  it.each([["<html>502</html>"], ["null"], ["[]"], [""]])("reads a body that is no error object: %s", (text) => {
    expect(failureFromAnswer({ status: 422, headers: new Headers(), text }, T0)).toEqual({
      reason: "unprocessable",
      message: "status 422",
    });
  });

  const secrets = [
    "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
    `ghs_1234_eyJhbGciOiJSUzI1NiJ9.${"a".repeat(200)}.${"b".repeat(200)}`,
    "github_pat_11AAAAAAA0abcdefghijkl_mnopqrstuvwxyz",
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
  ];
  it.each(secrets)("shows no secret that an answer echoes: %s", (secret) => {
    for (const status of [401, 403, 409, 422]) {
      const shown = describeFailure(failure(status, {}, { message: `Bad: ${secret}!`, errors: [secret] }));
      for (const part of secret.split(/[\n.]/).filter((piece) => piece.length > 12)) expect(shown).not.toContain(part);
      expect(shown).toContain("[redacted]");
    }
  });

  it("shows no exact secret the caller names, whatever it looks like", () => {
    const answer = {
      status: 422,
      headers: new Headers(),
      text: JSON.stringify({ message: "got plain-looking-words" }),
    };
    expect(failureFromAnswer(answer, T0, ["plain-looking-words"])).toEqual({
      reason: "unprocessable",
      message: "got [redacted]",
    });
  });

  it("keeps a message short and on one line", () => {
    const shown = failure(422, {}, { message: `a\nb\u0000c ${"x".repeat(5_000)}` });
    expect(shown.reason === "unprocessable" && shown.message.length).toBe(300);
    expect(shown.reason === "unprocessable" && shown.message.startsWith("a b c x")).toBe(true);
  });
});

describe("failureClass", () => {
  it.each<[GitHubFailure, string]>([
    [{ reason: "unauthorized", message: "" }, "fix-configuration"],
    [{ reason: "forbidden", acceptedPermissions: null, message: "" }, "fix-configuration"],
    [{ reason: "not-found" }, "give-up"],
    [{ reason: "gone" }, "give-up"],
    [{ reason: "conflict", message: "" }, "give-up"],
    [{ reason: "unprocessable", message: "" }, "give-up"],
    [{ reason: "rate-limited", retryAtMs: T0, scope: "primary" }, "retry-later"],
    [{ reason: "server", status: 502 }, "retry-later"],
    [{ reason: "transport", timeout: true }, "retry-later"],
    [{ reason: "unreadable", what: "id" }, "retry-later"],
  ])("says what to do about $reason", (given, expected) => {
    expect(failureClass(given)).toBe(expected);
    expect(describeFailure(given)).not.toBe("");
  });
});
