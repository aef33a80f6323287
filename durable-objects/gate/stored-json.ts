/** Stored text as a value. */

/**
 * What a column holds as JSON; null when it holds none. A damaged row is for the schema behind this to refuse, like one of
 * another shape: thrown from here it would end a tick in which other requests wait.
 */
export function storedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
