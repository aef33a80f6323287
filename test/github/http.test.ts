import { afterEach, describe, expect, it, vi } from "vitest";
import { readBodyText, retryAfterInstant, safeText, timedOut, timeLimit, untilAborted } from "../../shared/http.ts";
import { parseExactJson } from "../../shared/github/exact-json.ts";
import { optionalId, parseInstant, workflowPathOf } from "../../shared/github/schema.ts";
import { T0 } from "./stub.ts";

describe("readBodyText", () => {
  it("reads text whose characters are split between chunks", async () => {
    const bytes = new TextEncoder().encode("grün 🙂");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    expect(await readBodyText(new Response(body), bytes.length)).toEqual({ ok: true, value: "grün 🙂" });
  });

  it("stops reading and cancels a body that grows beyond the limit", async () => {
    let pulled = 0;
    let cancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(10));
      },
      cancel() {
        cancelled = true;
      },
    });
    expect(await readBodyText(new Response(endless), 25)).toEqual({ ok: false, error: { reason: "too-large" } });
    expect(cancelled).toBe(true);
    expect(pulled).toBeLessThan(10);
  });

  it("reports a connection that breaks on the way", async () => {
    const broken = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.error(new Error("reset by peer"));
      },
    });
    expect(await readBodyText(new Response(broken), 25)).toEqual({ ok: false, error: { reason: "interrupted" } });
  });
});

describe("timeLimit", () => {
  afterEach(() => void vi.useRealTimers());

  it("ends when its time is up, unless it was lifted; then no timer is left", () => {
    vi.useFakeTimers();
    const kept = timeLimit(10);
    const lifted = timeLimit(10);
    lifted.lift();
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(10);
    expect([timedOut(kept.signal), lifted.signal.aborted]).toEqual([true, false]);
  });

  it("ends with whoever waits for it", () => {
    const outer = new AbortController();
    const limit = timeLimit(10_000, outer.signal);
    outer.abort();
    expect([limit.signal.aborted, timedOut(limit.signal)]).toEqual([true, false]);
    limit.lift();
  });
});

describe("untilAborted", () => {
  it("gives up on work that never ends, and tells a time-out from a cancellation", async () => {
    const never = new Promise<never>(() => undefined);
    const timeout = AbortSignal.timeout(1);
    await expect(untilAborted(never, timeout)).rejects.toThrow(/timeout/i);
    expect(timedOut(timeout)).toBe(true);
    const cancelled = AbortSignal.abort();
    await expect(untilAborted(never, cancelled)).rejects.toThrow(/abort/i);
    expect(timedOut(cancelled)).toBe(false);
  });
});

describe("retryAfterInstant", () => {
  it.each([
    ["7", T0 + 7_000],
    [" 7 ", T0 + 7_000],
    ["Mon, 30 Nov 2026 12:00:10 GMT", T0 + 10_000],
    ["-1", null],
    ["1.5", null],
    ["1e9", null],
    ["tomorrow", null],
    [null, null],
  ])("reads %s", (header, expected) => {
    expect(retryAfterInstant(header, T0)).toBe(expected);
  });
});

describe("safeText", () => {
  it("takes out bearer values and RunPod keys", () => {
    expect(safeText("Authorization: Bearer abcdefgh12345 and rpa_ABCDEF123")).toBe(
      "Authorization: [redacted] and [redacted]",
    );
  });
});

describe("parseExactJson", () => {
  it("keeps whole numbers beyond 2^53 as their digits, and only those", () => {
    const text =
      '{"id":9007199254740993,"list":[18446744073709551615,-9007199254740993],"safe":9007199254740991,"text":"9007199254740993","real":0.1234567890123456,"big":1e300}';
    expect(parseExactJson(text)).toEqual({
      id: "9007199254740993",
      list: ["18446744073709551615", "-9007199254740993"],
      safe: 9007199254740991,
      text: "9007199254740993",
      real: 0.1234567890123456,
      big: 1e300,
    });
  });

  it("throws SyntaxError for what is no JSON, on both of its ways", () => {
    expect(() => parseExactJson("{")).toThrow(SyntaxError);
    // What the engine reads, and cannot walk with a reviver.
    const deep = `${'{"a":'.repeat(100_000)}9007199254740993${"}".repeat(100_000)}`;
    expect(() => parseExactJson(deep)).toThrow(new SyntaxError("the JSON is nested too deep to be read"));
    expect(() => parseExactJson("{1234567890123456789")).toThrow(SyntaxError);
  });
});

describe("optionalId", () => {
  it.each([[null], [undefined], [0], [""], ["0"]])("reads %s as none", (value) => {
    expect(optionalId.parse(value)).toBeNull();
  });
  it.each([[5], ["5"]])("reads %s as an id", (value) => {
    expect(optionalId.parse(value)).toBe("5");
  });
  it.each([[-1], [1.5], [1e300], ["x"], [true]])("refuses %s", (value) => {
    expect(optionalId.safeParse(value).success).toBe(false);
  });
});

describe("parseInstant", () => {
  const at = Date.UTC(2026, 10, 1, 1, 30);
  it.each([
    ["2026-11-01T01:30:00Z", at],
    ["2026-11-01T01:30:00+00:00", at],
    ["2026-11-01T03:30:00+02:00", at],
    ["2026-11-01T01:30:00.5Z", at + 500],
    ["2026-11-01T01:30:00.123456789Z", at + 123],
    ["2026-11-01T01:30:00", null],
    ["2026-11-01 01:30:00", null],
    ["2026-13-01T01:30:00Z", null],
    ["", null],
    [at, null],
    [null, null],
  ])("reads %s", (value, expected) => {
    expect(parseInstant(value)).toBe(expected);
  });
});

describe("workflowPathOf", () => {
  it.each([
    [".github/workflows/ci.yml", ".github/workflows/ci.yml"],
    [".github/workflows/ci.yaml@refs/heads/main", ".github/workflows/ci.yaml"],
    // A file with such a name must not pass for the trusted one.
    [".github/workflows/ci.yml@x.yml", ".github/workflows/ci.yml@x.yml"],
    [".github/workflows/ci.yml@x.yml@refs/heads/main", ".github/workflows/ci.yml@x.yml"],
    ["dynamic/pages", "dynamic/pages"],
  ])("takes the ref off %s", (path, expected) => {
    expect(workflowPathOf(path)).toBe(expected);
  });
});
