import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { podStartArgs, startScript, startScriptSha256 } from "../../pod/script.ts";
import { assembleStartScript, generatedModule, generatedPath } from "../../scripts/embed-pod-script.ts";

describe("the embedded start script", () => {
  it("is what start.sh and smoke.py say now (else: node scripts/embed-pod-script.ts)", () => {
    expect(readFileSync(generatedPath, "utf8")).toBe(generatedModule());
    expect(startScript).toBe(assembleStartScript());
    expect(startScriptSha256).toBe(createHash("sha256").update(startScript).digest("hex"));
  });

  it("travels as JSON with an entry point and a command", () => {
    expect(JSON.parse(podStartArgs)).toEqual({ entrypoint: ["bash", "-c"], cmd: [startScript, "gpu-gate-start"] });
  });

  it("leaves room in a create of 100,000 bytes for the longest of everything else", () => {
    const body = {
      name: "n".repeat(191),
      image: "i".repeat(300),
      args: podStartArgs,
      env: Object.fromEntries(Array.from({ length: 24 }, (_, index) => [`GPU_GATE_FACT_${index}`, "v".repeat(500)])),
      jit: "j".repeat(24_000),
    };
    expect(new TextEncoder().encode(JSON.stringify(body)).length).toBeLessThan(70_000);
  });

  it("imports nothing, so that a Worker can carry it", () => {
    const source = readFileSync(join(import.meta.dirname, "../../pod/script.ts"), "utf8");
    const imports = [...source.matchAll(/from "([^"]+)"/g)].map((match) => match[1]);
    expect(imports).toEqual(["./start-script.generated.ts"]);
    expect(generatedModule()).not.toMatch(/^import /m);
  });
});
