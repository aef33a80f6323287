/** Keys written twice in one mapping, found in time proportional to the file. */
import { isMap, isScalar, isSeq } from "yaml";

/**
 * The offsets of at most `limit` keys that their mapping already has, in the order of the file. Scalars are one key when
 * YAML gives them one value: `a` and `"a"` are, `1` and `"1"` are told apart by their type. Aliases are not followed.
 */
export function repeatedKeys(root: unknown, limit: number): readonly number[] {
  const found: number[] = [];
  const open: unknown[] = [root];
  while (open.length > 0) {
    const node = open.pop();
    if (isSeq(node)) open.push(...node.items);
    if (!isMap(node)) continue;
    const seen = new Set<unknown>();
    for (const { key, value } of node.items) {
      if (isScalar(key)) {
        if (seen.has(key.value)) found.push(key.range?.[0] ?? 0);
        seen.add(key.value);
      } else open.push(key);
      open.push(value);
    }
  }
  return found.sort((left, right) => left - right).slice(0, limit);
}
