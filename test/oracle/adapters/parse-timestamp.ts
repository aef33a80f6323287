/** Corpus parse-timestamp: a text and the microseconds it means, or a refusal. */
import { parseTimestampMicros } from "../../../shared/time.ts";
import type { CorpusAdapter } from "../adapter.ts";

export const adapter: CorpusAdapter = {
  corpus: "parse-timestamp",
  run: (testCase) => {
    const micros = parseTimestampMicros(String(testCase["text"]));
    const expected = testCase["expected"] as { epochMicros?: number; error?: true };
    const refused = micros === null;
    // The corpus says so itself: of a lenient ISO text, refusing is as right as reading it, another instant never.
    const mayRefuse = expected.error === true || testCase["kind"] === "iso-lenient";
    return {
      pass: refused ? mayRefuse : micros === expected.epochMicros,
      expected,
      actual: refused ? { error: true } : { epochMicros: micros },
    };
  },
};
