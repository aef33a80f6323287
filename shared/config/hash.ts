/** One stable text and one hash per value: what reuse and revalidation compare. */

/**
 * JSON with sorted keys and no spaces: equal values give equal text whatever order they were written in. Lists keep
 * their order, because the order of tiers and steps means something. Throws on what JSON cannot hold.
 */
export function stableJson(value: unknown): string {
  if (value === null || typeof value === "boolean" || typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number" && Number.isFinite(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(stableJson).join(",")}]`;
  if (typeof value === "object") {
    const entries = Object.entries(value).filter(([, member]) => member !== undefined);
    entries.sort(([left], [right]) => (left < right ? -1 : 1));
    return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${stableJson(member)}`).join(",")}}`;
  }
  throw new TypeError(`a ${typeof value} has no stable JSON form`);
}

/** Lower-case hex SHA-256 of a text's UTF-8 bytes. */
export async function sha256Hex(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Hashes that were made: a configuration that was read is not changed any more, and is asked for at every authorisation. Values
 * and no promises: one that belongs to an object which ended while it waited never settles, and all objects of an isolate would
 * wait for it.
 */
const hashes = new WeakMap<object, string>();

/** The hash of an effective configuration, defaults included: a changed default is a changed configuration. */
export async function effectiveConfigHash(config: object): Promise<string> {
  const known = hashes.get(config);
  if (known !== undefined) return known;
  const hash = await sha256Hex(stableJson(config));
  hashes.set(config, hash);
  return hash;
}
