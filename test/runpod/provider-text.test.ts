import { describe, expect, test } from "vitest";
import { startScript } from "../../pod/start-script.generated.ts";
import { plainText, withoutSecrets } from "../../shared/runpod/provider-text.ts";

describe("a provider that quotes the start command", () => {
  const args = JSON.stringify({ entrypoint: ["bash", "-c"], cmd: [startScript, "gpu-gate-start"] });
  const body = JSON.stringify({ name: "n", args });
  const lines = startScript.split("\n").filter((line) => line.trim().length >= 40);

  test.each([
    ["whole", args],
    ["inside a body", body],
    ["inside a body that was cut", body.slice(0, 900)],
    ["from its middle", args.slice(3_000, 3_400)],
    ["escaped once more", JSON.stringify(body).slice(0, 900)],
    ["as plain lines", startScript.slice(0, 500)],
  ])("%s shows none of its lines", (_, quoted) => {
    const shown = plainText(`refused: ${quoted}`, [args]);
    expect(lines.filter((line) => shown.includes(line.slice(0, 40)))).toEqual([]);
    expect(shown).toMatch(/^refused: /);
  });
});

describe("a secret that a provider writes back", () => {
  const secret = 'rpa_k/e+y"0\\n\n1';
  const every = Array.from(secret, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  const plain = JSON.stringify({ a: secret });

  test.each([
    ["as it is", secret],
    ["in JSON", plain],
    ["in JSON with a slash escaped", plain.replaceAll("/", "\\/")],
    ["in JSON by its code units", `{"a":"${every}"}`],
    [
      "in JSON by its code units in capitals",
      `{"a":"${every.replaceAll(/\\u(....)/g, (_, hex: string) => `\\u${hex.toUpperCase()}`)}"}`,
    ],
    ["in JSON by some of its code units", `{"a":"r\\u0070a_k\\/e+\\u0079\\"0\\\\n\\n1"}`],
    ["in JSON in JSON", JSON.stringify({ b: plain })],
    ["in JSON in JSON by its code units", JSON.stringify({ b: `{"a":"${every}"}` })],
    ["twice", JSON.stringify([secret, every])],
  ])("is blotted out %s", (_, text) => {
    let read = withoutSecrets(text, [secret]);
    expect(read).toContain("[redacted]");
    expect(read).not.toContain("e+y");
    expect(
      read.replaceAll(/\\+u(....)/g, (__, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    ).not.toContain("e+y");
    while (/^[{[]/.test(read) && read !== "[redacted]") {
      const value: unknown = JSON.parse(read);
      read = String(Object.values(value as object)[0]);
    }
    expect(read).toMatch(/^\[redacted\]$/);
  });

  test("leaves what only begins alike, and texts full of escapes cost no more than their length", () => {
    const alike = `{"a":"r\\u0070a_k\\/e+\\u0079\\"1"}`;
    expect(withoutSecrets(alike, [secret])).toBe(alike);
    const long = "\\".repeat(1_000_000);
    const began = performance.now();
    expect(withoutSecrets(long, [secret])).toBe(long);
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});
