import { expect, it } from "vitest";
import { isLaterId } from "../../shared/ids.ts";

it.each([
  ["10", "9", true],
  ["9", "10", false],
  ["58000000002", "58000000001", true],
  ["58000000001", "58000000002", false],
  ["7", "7", false],
  // Beyond 2^53 the two would be one and the same number.
  ["9007199254740993", "9007199254740992", true],
  ["9007199254740992", "9007199254740993", false],
])("id %s was given after %s: %s", (id, than, later) => {
  expect(isLaterId(id, than)).toBe(later);
});
