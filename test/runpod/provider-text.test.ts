import { describe, expect, test } from "vitest";
import { startScript } from "../../pod/start-script.generated.ts";
import { plainText } from "../../shared/runpod/provider-text.ts";

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
