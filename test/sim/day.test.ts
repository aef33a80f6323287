/** A small busy day: the long one, of thousands of pull requests, is a command of its own. */
import { describe, expect, it } from "vitest";
import { runDay } from "../../sim/day.ts";
import { installPlatform } from "../../sim/platform.ts";

describe("a day without faults", () => {
  it("concludes every request, returns every pod and knows the bill", async () => {
    const uninstall = installPlatform();
    const heard: string[] = [];
    try {
      const day = await runDay({ seed: 1, pulls: 8, repositories: 2, progress: (line) => heard.push(line) });
      expect(day.problem).toBeNull();
      expect(day.requests).toBeGreaterThanOrEqual(8);
      expect(day.verdicts["open"]).toBeUndefined();
      expect(day.pods).toBeGreaterThan(0);
      expect(day.bill).toBeGreaterThan(0);
      expect(Math.abs(day.bill - day.estimate)).toBeLessThan(0.001 * day.pods);
      expect(heard.length).toBeGreaterThan(20);
    } finally {
      uninstall();
    }
  });
});
