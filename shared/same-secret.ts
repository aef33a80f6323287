/**
 * The one place where something secret, or the hash of it, is compared with what a caller shows.
 *
 * Both sides are hashed first, so that neither the time a comparison takes nor the length of what is compared says how much
 * of a guess was right. A test refuses any other comparison of a secret.
 */
import { sha256Hex } from "./config/hash.ts";

/** Whether both texts are the same. The time it takes depends on their lengths alone. */
export async function sameSecret(shown: string, expected: string): Promise<boolean> {
  const [a, b] = await Promise.all([sha256Hex(shown), sha256Hex(expected)]);
  return sameDigest(a, b);
}

/** For two digests that are at hand already, as hex: every character is looked at, whatever the others were. */
export function sameDigest(shown: string, expected: string): boolean {
  let difference = shown.length ^ expected.length;
  for (let index = 0; index < expected.length; index += 1) {
    difference |= shown.charCodeAt(index) ^ expected.charCodeAt(index);
  }
  return difference === 0;
}
