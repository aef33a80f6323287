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

/**
 * A cache in memory that forgets what was used longest ago. It is bounded by what it holds, in characters, far below an
 * isolate's 128 MB: polls go round, and a round that does not fit is forgotten entry by entry just before it is asked for
 * again. Fifty pods and two hundred repositories poll some eight hundred paths of ten thousand characters.
 */
export function createEtagCache(maxEntries = 4_000, maxCharacters = 24 * 1024 * 1024): EtagCache {
  const entries = new Map<string, EtagEntry>();
  let characters = 0;
  const drop = (key: string): void => {
    characters -= entries.get(key)?.text.length ?? 0;
    entries.delete(key);
  };
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
      drop(key);
      if (entry.text.length > ENTRY_LIMIT) return;
      entries.set(key, entry);
      characters += entry.text.length;
      for (const oldest of entries.keys()) {
        if (entries.size <= maxEntries && characters <= maxCharacters) break;
        drop(oldest);
      }
    },
  };
}
