/**
 * JSON in which whole numbers stay exact.
 *
 * GitHub's ids are JSON numbers. Delivery ids already have 18 digits, and a number beyond 2^53 loses its last digits in
 * `JSON.parse`: two deliveries become one. Such a number is given back as the string of its digits; all others stay
 * numbers. Ids are read with `githubId` (schema.ts), which takes both.
 */

/** `JSON.parse` with the source-text argument (ECMAScript "JSON.parse source text access"; in V8, so in Node and workerd). */
interface JsonWithSource {
  parse(
    text: string,
    reviver?: (key: string, value: unknown, context?: { readonly source?: string }) => unknown,
  ): unknown;
}

const json: JsonWithSource = JSON;

/**
 * Parses `text`; throws `SyntaxError` for what is not JSON, like `JSON.parse`, and for what is nested deeper than the engine can
 * walk.
 */
export function parseExactJson(text: string): unknown {
  // A reviver visits every node, which is slow on large bodies: only needed when a long run of digits is there at all.
  if (!/\d{16}/.test(text)) return json.parse(text);
  try {
    return json.parse(text, (_key, value, context) => {
      if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
      const source = context?.source ?? "";
      return /^-?\d+$/.test(source) ? source : value;
    });
  } catch (error) {
    if (error instanceof RangeError) throw new SyntaxError("the JSON is nested too deep to be read");
    throw error;
  }
}
