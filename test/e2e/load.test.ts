/** `npm run load` in small: the same run as the long one, with the product's time limits shortened. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { expect, it } from "vitest";

const MAIN = join(import.meta.dirname, "..", "..", "bench", "load", "main.ts");
const SAMPLE = "--fast --repositories 5 --pods 2 --rate 50 --seconds 2 --bursts 1 --burst 50 --ramp 1".split(" ");

it("loses no signed delivery, lets no other have an effect, and leaves no pod", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gpu-gate-load-test-"));
  try {
    const file = join(folder, "load.json");
    const output = await new Promise<string>((resolve) => {
      execFile(process.execPath, [MAIN, ...SAMPLE, "--json", file], (error, stdout, stderr) =>
        resolve(`${error === null ? "ended 0" : `ended ${error.code}`}\n${stdout}${stderr}`),
      );
    });
    expect(output).toMatch(/^ended 0\n/);
    const { report } = JSON.parse(readFileSync(file, "utf8"));
    expect(report.judged).toMatchObject({ pods: 2, problems: [] });
    expect(report.judged.found).toBe(report.judged.heard);
    expect(report.judged.heard).toBeGreaterThan(100);
    expect(report.judged.strangers).toBeGreaterThan(10);
    expect(report.sustained.byStatus["401"]).toBeGreaterThan(0);
    expect(report.quota.steady.github.unchanged).toBeGreaterThan(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
