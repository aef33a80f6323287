import { describe, expect, test } from "vitest";
import { parseRateLimit, parseRetryAfter, waitAsked } from "../../shared/runpod/rate-limit.ts";

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);

describe("Retry-After", () => {
  test.each([
    ["12", 12_000],
    ["1.5", 1_500],
    [" 7 ", 7_000],
    ["0", 0],
    ["-5", 0],
    ["1e1", 10_000],
    ["Mon, 30 Nov 2026 12:00:30 GMT", 30_000],
    ["Mon, 30 Nov 2026 11:59:00 GMT", 0],
  ])("%j is %i ms", (text, waitMs) => {
    expect(parseRetryAfter(text, NOW)).toBe(waitMs);
  });

  test.each(["inf", "nan", "Infinity", "1_0", "0x10", "5s", "", "1e999", "soon"])("%j says nothing", (text) => {
    expect(parseRetryAfter(text, NOW)).toBeNull();
  });

  test("a missing header says nothing", () => {
    expect(parseRetryAfter(null, NOW)).toBeNull();
  });
});

describe("RateLimit windows", () => {
  const header = '"minute";r=0;t=12, "hour";r=0;t=1812, "day";r=49500;t=45012';

  test("reads the three windows of the documented example", () => {
    expect(parseRateLimit(header)).toEqual([
      { name: "minute", remaining: 0, resetsInMs: 12_000 },
      { name: "hour", remaining: 0, resetsInMs: 1_812_000 },
      { name: "day", remaining: 49_500, resetsInMs: 45_012_000 },
    ]);
  });

  test("the longest exhausted window counts, although Retry-After names a shorter one", () => {
    expect(waitAsked({ RateLimit: header, "Retry-After": "12" }, NOW)).toBe(1_812_000);
  });

  test("a window that is not exhausted is not waited for", () => {
    expect(waitAsked({ ratelimit: '"day";r=1;t=45012' }, NOW)).toBeNull();
  });

  test.each(["", "nonsense", '"minute"', '"minute";r=x;t=1'])("%j gives no window", (text) => {
    expect(parseRateLimit(text)).toEqual([]);
  });
});
