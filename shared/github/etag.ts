/**
 * Conditional requests: what GitHub said last, to be said again when it answers 304.
 *
 * A 304 does not count against the primary rate limit ("Best practices for using the REST API"), which is what makes
 * polling affordable.
 */

/** One remembered answer. */
export interface EtagEntry {
  readonly etag: string;
  readonly text: string;
  readonly link: string | null;
}

/** The port the client remembers through. Losing entries costs requests, never correctness. */
export interface EtagCache {
  get(key: string): EtagEntry | undefined;
  set(key: string, entry: EtagEntry): void;
}

/** Answers larger than this are not kept (in characters): a poll's answer is small. */
const ENTRY_LIMIT = 512 * 1024;

/** A cache in memory that forgets what was used longest ago. */
export function createEtagCache(maxEntries = 200): EtagCache {
  const entries = new Map<string, EtagEntry>();
  return {
    get(key) {
      const entry = entries.get(key);
      if (entry !== undefined) {
        entries.delete(key);
        entries.set(key, entry);
      }
      return entry;
    },
    set(key, entry) {
      entries.delete(key);
      if (entry.text.length > ENTRY_LIMIT) return;
      entries.set(key, entry);
      const oldest = entries.keys().next();
      if (entries.size > maxEntries && oldest.done !== true) entries.delete(oldest.value);
    },
  };
}
