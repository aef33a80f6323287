/** Feeds the stage-cost-record corpus to `chooseRecord`. */
import { isDeepStrictEqual } from "node:util";
import { chooseRecord } from "../../../shared/cost/record.ts";
import { parseTimestampMicros } from "../../../shared/time.ts";
import type { CorpusAdapter } from "../adapter.ts";

export const adapter: CorpusAdapter = {
  corpus: "stage-cost-record",
  run: (testCase) => {
    const deletedAt = parseTimestampMicros(String(testCase["deletedAt"]));
    const podId = textOf(testCase["podId"]);
    const chosen =
      deletedAt === null
        ? null
        : chooseRecord({
            preDelete: textOf(testCase["preDelete"]),
            startup: textOf(testCase["startup"]),
            podId: podId === "" ? null : podId,
            deletedAt,
          });
    const actual = chosen?.ok === true ? { source: chosen.value.source, pod: chosen.value.raw } : { error: true };
    return { pass: isDeepStrictEqual(actual, testCase["expected"]), expected: testCase["expected"], actual };
  },
};

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}
