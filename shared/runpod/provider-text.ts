/**
 * What RunPod wrote, made fit to be shown: short, on one line, without anything secret.
 *
 * An error text may quote the request it refuses, and the request carries the JIT config and the nonces. So texts are let
 * through by field name (`title`, `detail`, `errors` of a problem document, `error` of the retired envelope), every secret
 * the caller knows is blotted out, and so is any unbroken run of characters long enough to be part of one.
 */
import * as z from "zod";

const MAX_LENGTH = 300;
const MAX_DETAILS = 10;

/** No word of prose or GPU name is this long; keys, JIT configs (base64) and nonces (hex) are, and so are their pieces. */
const LONG_RUN = /[A-Za-z0-9+/_=-]{32,}/g;

/** Shorter secrets would blot out ordinary words. */
const MIN_SECRET_LENGTH = 6;

const LONG_SECRET = 300;
/** Shorter lines of the start command are words anybody writes. */
const MIN_LINE_LENGTH = 16;

const BLOT = "[redacted]";
/** A string of JSON may hold JSON, whose strings may hold JSON again. */
const DEPTH = 3;

export function plainText(text: string, secrets: readonly string[] = []): string {
  let plain = withoutSecrets(text, secrets);
  for (const secret of secrets) if (secret.length > LONG_SECRET) plain = withoutLinesOf(secret, plain);
  plain = plain
    .replaceAll(LONG_RUN, "[long value]")
    .replaceAll(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
  return plain.length > MAX_LENGTH ? `${plain.slice(0, MAX_LENGTH)} [cut]` : plain;
}

/**
 * The text without the secrets, whether it holds them as they are or as they stand inside a JSON string, in any of the ways
 * in which JSON may write a character, and inside a string of such a string. JSON stays JSON. Shorter secrets than six
 * characters are left.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET_LENGTH) continue;
    let form = secret;
    for (let depth = 0; depth <= DEPTH; depth += 1) {
      clean = clean.replaceAll(form, BLOT);
      const inside = JSON.stringify(form).slice(1, -1);
      // Nothing in it has to be escaped: it stands in any string as it is.
      if (inside === form) break;
      form = inside;
    }
    if (ESCAPED.test(clean)) clean = withoutEscaped(secret, clean);
  }
  return clean;
}

/** Escapes that JSON demands of nobody, or of a string inside a string; most answers have none. */
const ESCAPED = /\\[u/\\]/;
const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  "\n": "n",
  "\r": "r",
  "\t": "t",
  "\b": "b",
  "\f": "f",
  '"': '"',
  "/": "/",
  "\\": "\\",
};

/** Blots out a secret any of whose characters may be escaped. Goes over the text once, by the secret's first characters. */
function withoutEscaped(secret: string, text: string): string {
  const begins = new RegExp(Array.from(secret.slice(0, MIN_SECRET_LENGTH), anyForm).join(""), "g");
  let clean = "";
  let kept = 0;
  for (const found of text.matchAll(begins)) {
    if (found.index < kept) continue;
    const end = endOf(secret, text, found.index);
    if (end === null) continue;
    clean += text.slice(kept, found.index) + BLOT;
    kept = end;
  }
  return clean + text.slice(kept);
}

const hexOf = (sign: string): string => sign.charCodeAt(0).toString(16).padStart(4, "0");

function anyForm(sign: string): string {
  const hex = hexOf(sign);
  const digits = hex.replaceAll(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
  const short = SHORT_ESCAPES[sign];
  const escaped = short === undefined ? "" : `|\\\\{1,16}\\u${hexOf(short)}`;
  return `(?:\\u${hex}|\\\\{1,16}u${digits}${escaped})`;
}

/** Where the secret ends that begins at `from`, or null when it is another text. */
function endOf(secret: string, text: string, from: number): number | null {
  let at = from;
  for (let index = 0; index < secret.length; index += 1) {
    const sign = secret.charAt(index);
    if (text[at] !== "\\") {
      if (text[at] !== sign) return null;
      at += 1;
      continue;
    }
    let slashes = 0;
    while (text[at + slashes] === "\\") slashes += 1;
    const next = at + slashes;
    if (text[next] === "u" && text.slice(next + 1, next + 5).toLowerCase() === hexOf(sign)) at = next + 5;
    else if (sign === "\\") at += Math.min(2, slashes);
    else if (text[next] === SHORT_ESCAPES[sign]) at = next + 1;
    else return null;
  }
  return at;
}

/** A text as long as the start command is quoted in part: each of its lines is looked for by its beginning, however escaped. */
function withoutLinesOf(secret: string, text: string): string {
  let plain = text;
  for (const whole of secret.split(/(?:\\+[nt"]|["\n])+/)) {
    const line = whole.trim();
    if (line.length < MIN_LINE_LENGTH) continue;
    const start = line.slice(0, MIN_LINE_LENGTH);
    for (let at = plain.indexOf(start); at >= 0; at = plain.indexOf(start, at + 1)) {
      let end = MIN_LINE_LENGTH;
      while (end < line.length && plain[at + end] === line[end]) end += 1;
      plain = `${plain.slice(0, at)}${BLOT}${plain.slice(at + end)}`;
    }
  }
  return plain;
}

const problemSchema = z.object({
  title: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
  errors: z.array(z.unknown()).optional().catch(undefined),
  error: z.string().optional().catch(undefined),
  message: z.string().optional().catch(undefined),
  cloudflare_error: z.boolean().optional().catch(undefined),
  error_code: z.number().optional().catch(undefined),
});

export interface ProviderBody {
  /** The parsed body; undefined when it is not JSON. */
  readonly json: unknown;
  /** Its words as RunPod wrote them. For matching only; not fit to be shown. */
  readonly words: readonly string[];
  /** The envelope of the retired v1 API (`{"error": ...}`), which v2 never uses. */
  readonly legacyEnvelope: boolean;
  /** An answer of the network edge in front of RunPod, not of RunPod. */
  readonly edge: boolean;
}

/** Takes an error body apart. Never throws; an HTML page or broken JSON gives its text as the only word. */
export function readProviderBody(bodyText: string): ProviderBody {
  const json = parseJson(bodyText);
  const problem = problemSchema.safeParse(json);
  if (!problem.success || Array.isArray(json)) {
    return { json, words: bodyText === "" ? [] : [bodyText], legacyEnvelope: false, edge: json === undefined };
  }
  const { title, detail, errors, error, message } = problem.data;
  const words = [detail, error, message, ...(errors ?? []).map(wordOf), title].filter(
    (word): word is string => typeof word === "string" && word !== "",
  );
  return {
    json,
    words,
    legacyEnvelope: error !== undefined && title === undefined && detail === undefined,
    edge: problem.data.cloudflare_error === true || problem.data.error_code !== undefined,
  };
}

/** The words of an answer, fit to be shown. An HTML page says nothing worth showing. */
export function shownDetails(body: ProviderBody, secrets: readonly string[]): readonly string[] {
  return body.words
    .slice(0, MAX_DETAILS)
    .filter((word) => !word.trimStart().startsWith("<"))
    .map((word) => plainText(word, secrets))
    .filter((word) => word !== "");
}

/** JSON, or undefined when it is not JSON (JSON itself has no undefined). */
export function parseJson(bodyText: string): unknown {
  try {
    const value: unknown = JSON.parse(bodyText);
    return value;
  } catch {
    return undefined;
  }
}

const messageEntry = z.object({ message: z.string() });

/** An entry of `errors`: a string in v2, an object with a message in GraphQL. */
function wordOf(entry: unknown): string | undefined {
  if (typeof entry === "string") return entry;
  const parsed = messageEntry.safeParse(entry);
  return parsed.success ? parsed.data.message : undefined;
}
