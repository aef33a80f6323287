import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseHttpDate, parseTimestamp, parseTimestampMicros } from "../../shared/time.ts";

// 2026-11-01T01:30:00Z
const AT = 1_793_496_600_000_000;

describe("provider timestamps", () => {
  test.each([
    ["RFC 3339 with Z", "2026-11-01T01:30:00Z", AT],
    ["lower case", "2026-11-01t01:30:00z", AT],
    ["a zero offset", "2026-11-01T01:30:00+00:00", AT],
    ["an offset east, honoured", "2026-11-01T10:30:00+09:00", AT],
    ["an offset west, honoured", "2026-10-31T21:30:00-04:00", AT],
    ["one fraction digit", "2026-11-01T01:30:00.5Z", AT + 500_000],
    ["six fraction digits", "2026-11-01T01:30:00.123456Z", AT + 123_456],
    ["nine fraction digits, cut and not rounded", "2026-11-01T01:30:00.123456999Z", AT + 123_456],
    ["Go's default", "2026-11-01 01:30:00 +0000 UTC", AT],
    ["Go's default with a fraction", "2026-11-01 01:30:00.505 +0000 UTC", AT + 505_000],
    ["Go's default elsewhere", "2026-11-01 10:30:00.5 +0900 JST", AT + 500_000],
    ["Go's default named GMT", "2026-11-01 01:30:00 +0000 GMT", AT],
    ["a date in GMT", "2026-11-01 01:30:00.250 GMT", AT + 250_000],
    ["JavaScript's text with an offset", "Sat Oct 31 2026 21:30:00 GMT-0400 (Eastern Daylight Time)", AT],
    ["JavaScript's text in GMT", "Sun Nov 01 2026 01:30:00 GMT+0000 (Coordinated Universal Time)", AT],
    ["an HTTP date", "Sun, 01 Nov 2026 01:30:00 GMT", AT],
    ["before the epoch", "1969-12-31T23:59:59.999999Z", -1],
  ])("%s", (_what, text, micros) => {
    expect(parseTimestampMicros(text)).toBe(micros);
  });

  test.each([
    ["", "nothing"],
    ["   ", "blanks"],
    ["2026-11-01T01:30:00", "no offset: it could be local time"],
    ["2026-11-01 01:30:00", "no offset in Go's form"],
    ["2026-11-01 01:30:00 UTC", "Go's form without its offset"],
    ["2026-13-01T01:30:00Z", "a month that does not exist"],
    ["2026-02-29T01:30:00Z", "a day that does not exist"],
    ["2026-11-01T24:00:00Z", "an hour that does not exist"],
    ["2026-11-01T01:60:00Z", "a minute that does not exist"],
    ["2026-11-01T01:30:00+24:00", "an offset that does not exist"],
    ["2026-11-01T01:30:00.1234567890Z", "ten fraction digits"],
    ["2026-11-01T01:30:00.Z", "a point without digits"],
    [" 2026-11-01T01:30:00Z", "a blank in front"],
    ["0000-01-01T00:00:00Z", "a year that does not exist"],
    ["1793496600", "a bare number"],
    ["Rented by User: Sun Nov 01 2026 01:30:00 GMT+0000", "prose around a time"],
  ])("refuses %j (%s)", (text) => {
    expect(parseTimestampMicros(text)).toBeNull();
  });

  test("what is not text is unreadable, not now and not zero", () => {
    for (const value of [null, undefined, 0, 1_793_496_600_000, {}, true]) expect(parseTimestamp(value)).toBeNull();
  });

  test("reads back what this machine writes, at every millisecond", () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(0), max: new Date("2200-01-01"), noInvalidDate: true }), (date) => {
        expect(parseTimestamp(date.toISOString())).toBe(date.getTime());
      }),
    );
  });
});

describe("HTTP dates", () => {
  test.each(["Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])("%s", (text) => {
    expect(parseHttpDate(text)).toBe(784_111_777_000);
  });

  test("the form with two digits for the year is in this century", () => {
    expect(parseHttpDate("Sunday, 01-Nov-26 01:30:00 GMT")).toBe(AT / 1000);
  });

  test("another zone than GMT is refused", () => {
    expect(parseHttpDate("Sun, 06 Nov 1994 08:49:37 CET")).toBeNull();
  });
});
