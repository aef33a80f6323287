/**
 * Numbers and instants as people read them on the status page.
 */
import type { Millis } from "../shared/ports.ts";

const MICROS = 1_000_000;

/** `$0.0123` below ten cents, `$1.23` above. */
export function dollars(micros: number): string {
  const usd = micros / MICROS;
  return `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;
}

/** `8 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. Negative stretches (clocks differ) are none. */
export function stretch(ms: Millis): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ${Math.floor((seconds % 3_600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
}

/** `2026-11-30 12:34 UTC`. */
export function instant(at: Millis): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** The instant as machines read it, for `datetime` attributes. */
export function isoInstant(at: Millis): string {
  return new Date(at).toISOString();
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
