import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { judgeRuntime } from "../../shared/hosted/runtime.ts";
import { temporaryFolder } from "./folder.ts";
import { gpuGate } from "./io.ts";

const smi = (version: string) => ({
  stdin: async () =>
    new TextEncoder().encode(`| NVIDIA-SMI 570.86.15  Driver Version: 570.86.15  CUDA Version: ${version} |\n`),
});

describe("choosing", () => {
  test.each([
    ["12.6", "12.6", "baseline"],
    ["12.7", "12.6", "baseline"],
    ["12.8", "12.8", "full"],
    ["12.10", "12.8", "full"],
    ["13.0", "12.8", "full"],
  ])("a driver for CUDA %s gets runtime %s", async (driver, runtime, tier) => {
    const output = join(temporaryFolder(), "output");
    const answer = await gpuGate(["runtime", "choose", "--nvidia-smi", "-"], {
      ...smi(driver),
      env: { GITHUB_OUTPUT: output },
    });
    const expected = `driver=${driver}\nruntime=${runtime}\ntier=${tier}\npackage=cuda-nvrtc-${runtime.replace(".", "-")}\n`;
    expect(answer).toEqual({ code: 0, out: expected, err: "" });
    expect(readFileSync(output, "utf8")).toBe(expected);
  });

  test.each(["12.5", "11.8", "N/A"])("a driver that says %s is refused", async (driver) => {
    const answer = await gpuGate(["runtime", "choose", "--nvidia-smi", "-"], smi(driver));
    expect(answer).toMatchObject({ code: 1, out: "" });
  });
});

describe("verifying after the install", () => {
  test.each([
    [[12, 8], [12, 8], [12, 8], null],
    [[12, 10], [12, 8], [12, 8], null],
    [[12, 6], [12, 6], [12, 6], null],
    [[12, 5], [12, 6], [12, 6], "driver-too-old"],
    [[12, 8], [12, 6], [12, 4], "runtime-too-old"],
    [[12, 7], [12, 6], [12, 8], "runtime-newer-than-driver"],
    [[12, 8], [12, 8], [12, 10], "runtime-newer-than-driver"],
    [[12, 9], [12, 8], [12, 6], "runtime-not-chosen"],
    [[13, 0], [12, 8], [12, 9], "runtime-not-chosen"],
  ] as const)("driver %j, chosen %j, loaded %j: %s", (driver, chosen, loaded, reason) => {
    expect(judgeRuntime({ driver, chosen, loaded })?.reason ?? null).toBe(reason);
  });

  test("the command says which rule was broken", async () => {
    const args = ["runtime", "verify", "--driver", "12.7", "--chosen", "12.6"];
    expect((await gpuGate([...args, "--loaded", "12.6"])).code).toBe(0);
    const refused = await gpuGate([...args, "--loaded", "12.8"]);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain("the loaded NVRTC is 12.8, newer than the driver's CUDA 12.7");
  });

  test.each([
    [["runtime"], "choose or verify"],
    [["runtime", "choose"], "--nvidia-smi or as --driver"],
    [["runtime", "choose", "--driver", "twelve"], "not 'twelve'"],
    [["runtime", "verify", "--driver", "12.8"], "--chosen"],
    [["runtime", "verify", "--driver", "12.8", "--chosen", "12.8"], "--library or as --loaded"],
    [["runtime", "verify", "--driver", "12.8", "--chosen", "12.8", "--library", "missing.so"], "cannot be asked"],
  ])("%j is a wrong call", async (args, hint) => {
    const answer = await gpuGate(args);
    expect(answer.code).toBe(2);
    expect(answer.err).toContain(hint);
  });
});
