/**
 * Reading the times that providers write. A time is a point in UTC or it is refused: what names no offset is not guessed.
 *
 * RunPod alone uses four spellings: RFC 3339 (REST v2, GraphQL), Go's default (`2026-04-21 00:06:57.505 +0000 UTC`, REST
 * v1), a date with `GMT` for the offset, and JavaScript's `Fri Jul 12 2024 15:14:40 GMT-0400 (...)` inside free text.
 * `Retry-After` adds the HTTP date. `Date.parse` is never used: it reads a missing offset as local time.
 *
 * Callers treat null as "unreadable", and an unreadable time counts as old.
 */
import type { Millis } from "./ports.ts";

const DATE_AND_CLOCK = String.raw`(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)[Tt ](?<hour>\d\d):(?<minute>\d\d)`;
const FRACTION = String.raw`(?:\.(?<fraction>\d{1,9}))?`;

const RFC_3339 = new RegExp(
  String.raw`^${DATE_AND_CLOCK}(?::(?<second>\d\d)${FRACTION})?(?<offset>[Zz]|[+-]\d\d:?\d\d)$`,
);
/** Go prints the offset, then the zone's letters; only the offset counts. */
const GO = new RegExp(
  String.raw`^${DATE_AND_CLOCK}:(?<second>\d\d)${FRACTION} (?<offset>[+-]\d{4})(?: (?<zone>[A-Za-z]+))?$`,
);
const GMT = new RegExp(String.raw`^${DATE_AND_CLOCK}:(?<second>\d\d)${FRACTION} (?:GMT)(?<offset>[+-]\d{4})?$`);

const WEEKDAY = String.raw`(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)`;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH = String.raw`(?<month>${MONTHS.join("|")})`;
const CLOCK = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;

const JAVASCRIPT = new RegExp(
  String.raw`^${WEEKDAY} ${MONTH} (?<day>\d\d) (?<year>\d{4}) ${CLOCK} GMT(?<offset>[+-]\d{4})(?: \([^()]*\))?$`,
);

const HTTP_DATES = [
  // IMF-fixdate, the one form that is sent today.
  new RegExp(String.raw`^${WEEKDAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${CLOCK} GMT$`),
  // The two older forms RFC 9110 asks every reader to accept.
  new RegExp(String.raw`^[A-Z][a-z]+day, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${CLOCK} GMT$`),
  new RegExp(String.raw`^${WEEKDAY} ${MONTH} (?<day>[ \d]\d) ${CLOCK} (?<year>\d{4})$`),
];

/**
 * A provider's timestamp as whole microseconds since the Unix epoch (a longer fraction is cut, not rounded), or null when
 * the text is no time, names a day that does not exist, or names no offset.
 */
export function parseTimestampMicros(text: string): number | null {
  const match =
    RFC_3339.exec(text) ?? GO.exec(text) ?? GMT.exec(text) ?? JAVASCRIPT.exec(text) ?? HTTP_DATES[0]?.exec(text);
  return match?.groups === undefined ? null : micros(match.groups);
}

/** The same as whole milliseconds. Anything but a string (a provider sent null, or nothing) is null. */
export function parseTimestamp(value: unknown): Millis | null {
  const whole = typeof value === "string" ? parseTimestampMicros(value) : null;
  return whole === null ? null : Math.floor(whole / 1000);
}

/** An HTTP date (RFC 9110, 5.6.7) in any of its three forms, as milliseconds, or null. All three mean GMT. */
export function parseHttpDate(text: string): Millis | null {
  for (const form of HTTP_DATES) {
    const groups = form.exec(text)?.groups;
    if (groups !== undefined) {
      const whole = micros(groups);
      return whole === null ? null : whole / 1000;
    }
  }
  return null;
}

type Parts = Readonly<Record<string, string | undefined>>;

function micros(parts: Parts): number | null {
  const year = fullYear(parts["year"] ?? "");
  const month = monthNumber(parts["month"] ?? "");
  const day = Number(parts["day"]);
  const hour = Number(parts["hour"]);
  const minute = Number(parts["minute"]);
  const second = Number(parts["second"] ?? "0");
  const offsetMinutes = offsetOf(parts["offset"]);
  if (year < 1 || hour > 23 || minute > 59 || second > 59 || offsetMinutes === null) return null;

  // setUTCFullYear, because Date.UTC reads the years 0 to 99 as 1900 to 1999.
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  date.setUTCHours(hour, minute, second);

  const fraction = BigInt((parts["fraction"] ?? "").padEnd(6, "0").slice(0, 6));
  const exact = (BigInt(date.getTime()) - BigInt(offsetMinutes * 60_000)) * 1000n + fraction;
  // Beyond 2^53 not every microsecond has a number: better none than a neighbouring one.
  return BigInt(Number(exact)) === exact ? Number(exact) : null;
}

/** RFC 850 wrote two digits; nothing of ours is older than this century. */
function fullYear(text: string): number {
  return text.length === 2 ? 2000 + Number(text) : Number(text);
}

function monthNumber(text: string): number {
  const named = MONTHS.indexOf(text);
  return named === -1 ? Number(text) : named + 1;
}

function offsetOf(text: string | undefined): number | null {
  if (text === undefined || text === "Z" || text === "z") return 0;
  const hours = Number(text.slice(1, 3));
  const minutes = Number(text.slice(-2));
  if (hours > 23 || minutes > 59) return null;
  return (text.startsWith("-") ? -1 : 1) * (hours * 60 + minutes);
}
