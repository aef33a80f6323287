/**
 * Every reason code is said somewhere in the product: a code in the documentation that nothing can produce misleads whoever
 * looks for it, and one that nobody lists is a hole in the promise that every request ends with a reason (I7). That requests
 * do end so is in `every-end.test.ts`.
 */
import { expect, it } from "vitest";
import { REASON_CODES } from "../../shared/audit/reasons.ts";
import { filesUnder, read } from "../house/source.ts";

const PARTS = ["shared", "durable-objects", "worker", "cron", "cli"];

it("each is said by the product", () => {
  const sources = PARTS.flatMap((part) => filesUnder(part, ".ts")).filter((file) => file !== "shared/audit/reasons.ts");
  const text = sources.map(read).join("\n");
  expect(REASON_CODES.filter((code) => !text.includes(`"${code}"`))).toEqual([]);
});
