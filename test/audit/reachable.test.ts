/**
 * Every reason code is said somewhere in the product, or is listed here with why it is not: a code in the documentation that
 * nothing can produce misleads whoever looks for it, and one that nobody lists is a hole in the promise that every request
 * ends with a reason (I7).
 */
import { expect, it } from "vitest";
import { REASON_CODES } from "../../shared/audit/reasons.ts";
import { filesUnder, read } from "../house/source.ts";

const NOT_SAID: Readonly<Record<string, string>> = {
  "wrong-revision": "the job itself stops before its tests when the commit is another: told as no-evidence",
  "wrong-event": "an event that starts nothing opens no request, so there is no check to put it on",
  "duplicate-delivery": "kept as the outcome of the delivery, not as an entry of a request's audit",
  "stale-event": "kept as the outcome of the delivery",
  "not-addressed": "kept as the outcome of the delivery",
  draft: "the check waits with its own words; nothing has ended",
};

const PARTS = ["shared", "durable-objects", "worker", "cron", "cli"];

it("each is said by the product, or its absence has a reason", () => {
  const sources = PARTS.flatMap((part) => filesUnder(part, ".ts")).filter((file) => file !== "shared/audit/reasons.ts");
  const text = sources.map(read).join("\n");
  const unsaid = REASON_CODES.filter((code) => !text.includes(`"${code}"`));
  expect(unsaid.toSorted()).toEqual(Object.keys(NOT_SAID).toSorted());
});
