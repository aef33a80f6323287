/**
 * A webhook delivery as a case: a real payload, what is done to it, how it travels, how it is signed. And the model of what
 * may come of it, written down here on its own: signed or not, readable or not.
 */
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import * as z from "zod";
import { byteChange, damagedBytes, encode, ENCODINGS, type ByteChange, type Encoding } from "./bytes.ts";
import { damagedJson, jsonChange, type JsonChange } from "./json.ts";

export const SECRET = "the-webhook-secret-of-this-fuzz";
export const LIMIT = 25 * 1024 * 1024;

const catalogue = z
  .array(z.object({ name: z.string(), examples: z.array(z.unknown()) }))
  .parse(JSON.parse(readFileSync(createRequire(import.meta.url).resolve("@octokit/webhooks-examples"), "utf8")));

/** Events the App acts on come first and most often. */
const HEARD = new Set([
  "pull_request",
  "workflow_run",
  "workflow_job",
  "check_run",
  "check_suite",
  "merge_group",
  "issue_comment",
  "repository",
  "installation",
  "installation_repositories",
]);

interface Example {
  readonly event: string;
  readonly payload: unknown;
}

const all: readonly Example[] = catalogue.flatMap(({ name, examples }) =>
  examples.map((payload) => ({ event: name, payload })),
);
export const examples: readonly Example[] = [
  ...all.filter(({ event }) => HEARD.has(event)),
  ...all.filter(({ event }) => !HEARD.has(event)),
];
const heardCount = examples.filter(({ event }) => HEARD.has(event)).length;

const repositoryIds = new Set<string>();
for (const { payload } of examples) {
  const found = z.object({ repository: z.object({ id: z.number() }) }).safeParse(payload);
  if (found.success) repositoryIds.add(String(found.data.repository.id));
}
/** Every repository of the examples is served, so that nothing is passed over for that reason. */
export const servedRepositories: ReadonlySet<string> = repositoryIds;

const SIGNATURES = [
  "good",
  "previous",
  "wrong-secret",
  "none",
  "empty",
  "upper-case",
  "sha1",
  "no-prefix",
  "short",
  "twice",
  "of-other-bytes",
  "not-hex",
  "non-ascii",
] as const;

const TYPES = [
  "application/json",
  "application/json; charset=utf-8",
  "APPLICATION/JSON",
  "application/x-www-form-urlencoded",
  "text/plain",
  "application/jsonp",
  "",
] as const;

export interface DeliveryCase {
  readonly example: number;
  readonly json: readonly JsonChange[];
  readonly bytes: readonly ByteChange[];
  readonly encoding: Encoding;
  readonly signature: (typeof SIGNATURES)[number];
  readonly type: (typeof TYPES)[number];
  readonly compressed: "no" | "gzip" | "said-only";
  /** Pieces that the body is sent in; 0: whole. */
  readonly pieces: number;
  /** Bytes of blanks put behind the JSON. */
  readonly padding: number;
  readonly event: string | null;
  readonly guid: string | null;
  /** The gate itself does not answer: the one 5xx there may be. */
  readonly gateDown: boolean;
}

const often = <T>(usual: T, others: fc.Arbitrary<T>, weight = 6): fc.Arbitrary<T> =>
  fc.oneof({ weight, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: others });

const headerWord = fc.constantFrom(
  "",
  "pull request",
  "__proto__",
  "constructor",
  "toString",
  "a".repeat(200),
  "ping",
  "é",
);

export const deliveryCase: fc.Arbitrary<DeliveryCase> = fc.record({
  example: fc.oneof(
    { weight: 4, arbitrary: fc.nat(heardCount - 1) },
    { weight: 1, arbitrary: fc.nat(examples.length - 1) },
  ),
  json: fc.array(jsonChange, { maxLength: 4 }),
  bytes: often<readonly ByteChange[]>([], fc.array(byteChange, { minLength: 1, maxLength: 4 }), 4),
  encoding: often<Encoding>("utf8", fc.constantFrom(...ENCODINGS), 8),
  signature: often<DeliveryCase["signature"]>("good", fc.constantFrom(...SIGNATURES), 2),
  type: often<DeliveryCase["type"]>("application/json", fc.constantFrom(...TYPES), 9),
  compressed: often<DeliveryCase["compressed"]>("no", fc.constantFrom("gzip", "said-only"), 12),
  pieces: often(0, fc.integer({ min: 1, max: 9 }), 4),
  padding: often(0, fc.constantFrom(1, 4096, LIMIT - 5_000, LIMIT + 1), 250),
  event: often<string | null>(null, headerWord, 15),
  guid: often<string | null>(null, headerWord, 15),
  gateDown: often(false, fc.constant(true), 30),
});

export interface Delivery {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<string, string>>;
  /** One of the secrets really signed exactly these bytes, in the one form there is. */
  readonly signed: boolean;
  readonly json: boolean;
  readonly tooLarge: boolean;
  /** Its head alone has it refused, or its size: the rest of the body need not be read. */
  readonly refusedUnread: boolean;
}

let serial = 0;

export function deliveryOf(
  given: DeliveryCase,
  secrets: { readonly now: string; readonly previous: string },
): Delivery {
  const { event, payload } = examples[given.example % examples.length] ?? { event: "ping", payload: {} };
  const text = given.json.length === 0 ? JSON.stringify(payload) : damagedJson(payload, given.json);
  const padded = given.padding === 0 ? text : text + " ".repeat(given.padding);
  let bytes = damagedBytes(encode(padded, given.encoding), given.bytes);
  if (given.compressed === "gzip") bytes = Uint8Array.from(gzipSync(bytes));
  serial += 1;
  const headers: Record<string, string> = {
    "content-type": given.type,
    "x-github-event": given.event ?? event,
    "x-github-delivery": given.guid ?? `fuzz-${serial}`,
  };
  if (given.compressed !== "no") headers["content-encoding"] = "gzip";
  const shown = signatureOf(given.signature, bytes, secrets);
  if (shown !== null) headers["x-hub-signature-256"] = shown;
  const isGood = [secrets.now, secrets.previous].some((secret) => shown === `sha256=${hmac(bytes, secret)}`);
  const json = /^application\/json *(?:;|$)/i.test(given.type);
  const tooLarge = bytes.byteLength > LIMIT;
  return {
    bytes,
    // A header that cannot be sent is not a case.
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, sendable(value)])),
    signed: isGood,
    json,
    tooLarge,
    refusedUnread: tooLarge || !json || shown === null || !/^sha256=[0-9a-f]{64}$/.test(shown),
  };
}

/** Header values are bytes: what is not Latin-1 is sent as a question mark, as clients do. */
function sendable(value: string): string {
  // eslint-disable-next-line no-control-regex
  return value.replaceAll(/[^\u0020-\u00ff]/g, "?");
}

function hmac(bytes: Uint8Array, secret: string, algorithm = "sha256"): string {
  return createHmac(algorithm, secret).update(bytes).digest("hex");
}

function signatureOf(
  how: DeliveryCase["signature"],
  bytes: Uint8Array,
  secrets: { readonly now: string; readonly previous: string },
): string | null {
  const good = hmac(bytes, secrets.now);
  switch (how) {
    case "good":
      return `sha256=${good}`;
    case "previous":
      return `sha256=${hmac(bytes, secrets.previous)}`;
    case "wrong-secret":
      return `sha256=${hmac(bytes, `${secrets.now} `)}`;
    case "none":
      return null;
    case "empty":
      return "";
    case "upper-case":
      return `sha256=${good.toUpperCase()}`;
    case "sha1":
      return `sha1=${hmac(bytes, secrets.now, "sha1")}`;
    case "no-prefix":
      return good;
    case "short":
      return `sha256=${good.slice(0, 62)}`;
    case "twice":
      return `sha256=${good}, sha256=${good}`;
    case "of-other-bytes":
      return `sha256=${hmac(Buffer.concat([bytes, Buffer.from(" ")]), secrets.now)}`;
    case "not-hex":
      return `sha256=${"g".repeat(64)}`;
    case "non-ascii":
      return `sha256=${"é".repeat(64)}`;
  }
}

const STATUSES = new Set([200, 202, 400, 401, 413, 415, 503]);

/** What an answer to this delivery may be. `changed`: whether anything stored is different now; null when nobody looked. */
export function judgeAnswer(
  given: DeliveryCase,
  sent: Delivery,
  answer: { readonly status: number; readonly text: string },
  changed: boolean | null,
): string | null {
  const { status, text } = answer;
  const shown = `${status} ${JSON.stringify(text.slice(0, 150))}`;
  if (!STATUSES.has(status)) return `answered ${shown}, which is none of the documented answers`;
  if (status === 503 && !given.gateDown) return `answered ${shown} although the gate works`;
  if (text.trim() === "") return `answered ${status} without a sentence`;
  if (text.length > 1000) return `answered with ${text.length} characters`;
  if (!/[.!?]$/.test(text.trim())) return `answered ${shown}, which is no sentence`;
  if (text.includes("\n")) return `answered ${shown}, which is more than one line`;
  if (!sent.signed && status < 400) return `accepted a delivery that nobody signed: ${shown}`;
  if (!sent.signed && changed === true) return `changed what is stored for a delivery that nobody signed (${shown})`;
  if (status >= 400 && status < 500 && changed === true) return `refused with ${shown} and changed what is stored`;
  if (sent.tooLarge && status < 400) return `accepted ${sent.bytes.byteLength} bytes`;
  if (!sent.json && status < 400) return `accepted the content type ${JSON.stringify(given.type)}`;
  const fine = sent.signed && sent.json && !sent.tooLarge && sent.bytes.byteLength > 0;
  if (fine && status === 401) return `refused a signature that holds: ${shown}`;
  return null;
}

/**
 * What a connection that the server closed may mean: that it refused what its reader need not read to the end, and said so.
 * Anything else that is cut off is a fault.
 */
export function judgeHangUp(
  sent: Pick<Delivery, "refusedUnread" | "signed">,
  { code, status }: { readonly code: string; readonly status: number | null },
  changed: boolean | null,
): string | null {
  const shown = status === null ? `${code} without an answer` : `${code} in the middle of an answer with ${status}`;
  if (!sent.refusedUnread) return `hung up on a delivery that has to be read: ${shown}`;
  if (status !== null && (status < 400 || status >= 500)) return `hung up on a delivery that is refused: ${shown}`;
  if (!sent.signed && changed === true) return `changed what is stored for a delivery that nobody signed (${shown})`;
  return null;
}
