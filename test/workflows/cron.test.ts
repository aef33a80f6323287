/** The five fields of a schedule. */
import { describe, expect, it } from "vitest";
import { fits, parseCron } from "../../local/workflow/cron.ts";
import { parseWorkflow } from "../../local/workflow/parse.ts";

function at(cron: string, time: string): boolean {
  const parsed = parseCron(cron);
  if (!parsed.ok) throw new Error(parsed.error);
  return fits(parsed.value, Date.parse(time));
}

describe("a schedule", () => {
  it.each([
    ["7,22,37,52 * * * *", "2026-11-30T10:22:59Z", "2026-11-30T10:23:00Z"],
    ["41 3 * * *", "2026-11-30T03:41:00Z", "2026-11-30T04:41:00Z"],
    ["*/20 9-17 * * MON-FRI", "2026-11-30T09:40:00Z", "2026-11-29T09:40:00Z"],
    ["5/15 * * * *", "2026-11-30T09:50:00Z", "2026-11-30T09:00:00Z"],
    ["0 0 1 JAN *", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"],
    ["0 0 29 2 *", "2028-02-29T00:00:00Z", "2027-03-01T00:00:00Z"],
    // Both day fields: either is enough.
    ["0 0 13 * FRI", "2026-11-27T00:00:00Z", "2026-11-26T00:00:00Z"],
    ["0 0 13 * FRI", "2026-12-13T00:00:00Z", "2026-12-12T00:00:00Z"],
    // One of them: only that one.
    ["0 0 13 * *", "2026-12-13T00:00:00Z", "2026-11-27T00:00:00Z"],
  ])("%s fits %s and not %s", (cron, fit, other) => {
    expect([at(cron, fit), at(cron, other)]).toEqual([true, false]);
  });

  it.each([
    "* * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * * 13 *",
    "* * * * 7",
    "5-1 * * * *",
    "*/0 * * * *",
    "@daily",
    "x * * * *",
    "1-2-3 * * * *",
  ])("'%s' is none, and a file that holds it is refused at the line", (cron) => {
    expect(parseCron(cron).ok).toBe(false);
    const text = `on:\n  schedule:\n    - cron: "${cron}"\njobs:\n  a:\n    runs-on: x\n    steps: [{run: echo}]\n`;
    const parsed = parseWorkflow(text, "w.yml");
    expect(parsed.ok ? null : parsed.error).toMatchObject([
      { line: 3, message: expect.stringContaining(cron) as string },
    ]);
  });
});
