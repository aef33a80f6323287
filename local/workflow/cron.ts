/**
 * The five fields of a schedule, and whether a minute fits them.
 *
 * Source: GitHub's documentation of `on.schedule` (POSIX cron: lists, ranges, steps, English names; UTC) and POSIX crontab,
 * for the one surprise in it: where both day fields are restricted, a day that fits either of them fits.
 */
import type { Millis } from "../../shared/ports.ts";
import { err, ok, type Result } from "../../shared/result.ts";

export interface Cron {
  readonly minutes: ReadonlySet<number>;
  readonly hours: ReadonlySet<number>;
  readonly days: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  readonly weekdays: ReadonlySet<number>;
  /** Both day fields say something: either is enough. */
  readonly eitherDay: boolean;
}

const MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(" ");
const WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split(" ");

/** Reads a schedule; the error is the end of a sentence about it. */
export function parseCron(text: string): Result<Cron, string> {
  const fields = text.trim().split(/\s+/);
  if (fields.length !== 5) return err(`has ${fields.length} fields instead of five`);
  const [minute = "", hour = "", day = "", month = "", weekday = ""] = fields;
  const minutes = field(minute, 0, 59, []);
  const hours = field(hour, 0, 23, []);
  const days = field(day, 1, 31, []);
  const months = field(month, 1, 12, MONTHS);
  const weekdays = field(weekday, 0, 6, WEEKDAYS);
  if (minutes === null) return err(`has a minute that cannot be: '${minute}'`);
  if (hours === null) return err(`has an hour that cannot be: '${hour}'`);
  if (days === null) return err(`has a day that cannot be: '${day}'`);
  if (months === null) return err(`has a month that cannot be: '${month}'`);
  if (weekdays === null) return err(`has a weekday that cannot be: '${weekday}'`);
  return ok({ minutes, hours, days, months, weekdays, eitherDay: !day.startsWith("*") && !weekday.startsWith("*") });
}

/** Whether the minute that holds this instant fits, in UTC. */
export function fits(cron: Cron, at: Millis): boolean {
  const time = new Date(at);
  if (!cron.minutes.has(time.getUTCMinutes()) || !cron.hours.has(time.getUTCHours())) return false;
  if (!cron.months.has(time.getUTCMonth() + 1)) return false;
  const day = cron.days.has(time.getUTCDate());
  const weekday = cron.weekdays.has(time.getUTCDay());
  return cron.eitherDay ? day || weekday : day && weekday;
}

/** The numbers that a field names; null when it is not one. `names` stand for numbers from `from` on. */
function field(text: string, from: number, to: number, names: readonly string[]): ReadonlySet<number> | null {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const [, range = "", step = "1"] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(part) ?? [];
    const stepped = part.includes("/");
    const [first, last] = range === "*" ? [from, to] : bounds(range, from, names, stepped ? to : null);
    const by = Number(step);
    if (!(by >= 1) || !(first >= from && last <= to && first <= last)) return null;
    for (let value = first; value <= last; value += by) found.add(value);
  }
  return found;
}

/** `a`, `a-b`, or with a step `a/n`, which goes on to the end. NaN for anything else. */
function bounds(range: string, from: number, names: readonly string[], openEnd: number | null): [number, number] {
  const number = (word: string): number => {
    const name = names.indexOf(word.toUpperCase());
    if (name !== -1) return name + from;
    return /^\d{1,2}$/.test(word) ? Number(word) : Number.NaN;
  };
  const [first = "", last, ...rest] = range.split("-");
  if (rest.length > 0) return [Number.NaN, Number.NaN];
  return [number(first), last === undefined ? (openEnd ?? number(first)) : number(last)];
}
