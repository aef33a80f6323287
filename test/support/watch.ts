/**
 * What is secret, where each secret may be, and what was found elsewhere. No runtime's module is needed here: taps.ts feeds it in
 * Node.
 */
import { afterAll, afterEach, beforeEach, expect } from "vitest";

/** Secrets that tests and the local world make up carry it (local/minted.ts). */
export const MARK = "canary-";
/** Shorter words are no secret that anybody would use, and would be found in ordinary text. */
const MIN_LENGTH = 20;
/** So much of a long secret is looked for: one that was cut is found as well. */
const NEEDLE = 60;
/** A text that is longer is looked through in part: the first and the last of it. */
const LOOKED_AT = 400_000;
/** Tokens and registrations are base64 of JSON: without it in a text, none of them is there. */
const ENCODED = /ey[IJ]/;
/** A pod's nonces are 24 bytes in hex. */
const NONCE = /[0-9a-f]{48}/g;
const HEX = /^[0-9a-f]{48}$/;

/** Where a secret may stand: places as `watch` and `show` name them. */
export type Home = (place: string) => boolean;

interface Known {
  readonly whose: string;
  /** Several where one piece is in several secrets: the claims of tokens that two servers were shown in one second. */
  readonly homes: Home[];
}

/** Of whole secrets: whom each may be shown to. */
const owners = new Map<string, { readonly whose: string; readonly home: Home }>();
/** By what is looked for. Apart are those that neither the mark nor the encoding gives away: each costs a search of its own. */
const telling = new Map<string, Known>();
const silent = new Map<string, Known>();
const nonces = new Map<string, Known>();
const leaks: string[] = [];
let test = "before the first test";

/** The piece of a secret that no other text has: of a signed token its claims, of a key one of its lines. */
function needle(secret: string): string {
  const lines = secret.split("\n");
  if (lines.length > 4) return lines[Math.floor(lines.length / 2)] ?? secret;
  const claims = /^eyJ[\w-]+\.([\w-]+)\.[\w-]*$/.exec(secret)?.[1];
  return (claims ?? secret).slice(0, NEEDLE);
}

/** The first word about a secret counts. */
export function learn(secret: string, whose: string, home: Home): void {
  const sought = needle(secret);
  if (sought.length < MIN_LENGTH || owners.has(secret)) return;
  owners.set(secret, { whose, home });
  const kind = sought.includes(MARK) || ENCODED.test(sought) ? telling : HEX.test(sought) ? nonces : silent;
  const known = kind.get(sought);
  if (known === undefined) kind.set(sought, { whose, homes: [home] });
  else known.homes.push(home);
}

function report(what: string): void {
  leaks.push(`${test}: ${what}`);
}

/** A credential is shown to a server; the first that sees it is the one it belongs to. */
export function show(secret: string, origin: string, place: string): void {
  const owner = owners.get(secret);
  if (owner === undefined) learn(secret, origin, (where) => where === origin);
  else if (!owner.home(origin)) report(`the credential of ${owner.whose} shown to ${place}`);
}

function away({ homes }: Known, place: string): boolean {
  return !homes.some((home) => home(place));
}

/** Notes what of `text` is secret and may not be at this place. */
export function watch(place: string, text: string): void {
  if (text.length < MIN_LENGTH) return;
  const seen = text.length > LOOKED_AT ? `${text.slice(0, LOOKED_AT)}${text.slice(-LOOKED_AT)}` : text;
  for (const [secret, known] of silent) {
    if (seen.includes(secret) && away(known, place)) report(`the credential of ${known.whose} in ${place}`);
  }
  if (nonces.size > 0) {
    for (const [text48] of seen.matchAll(NONCE)) {
      const known = nonces.get(text48);
      if (known !== undefined && away(known, place)) report(`the credential of ${known.whose} in ${place}`);
    }
  }
  const marked = seen.includes(MARK);
  if (!marked && !ENCODED.test(seen)) return;
  let rest = seen;
  let told = false;
  for (const [secret, known] of telling) {
    if (!seen.includes(secret)) continue;
    if (away(known, place)) {
      report(`the credential of ${known.whose} in ${place}`);
      told = true;
    } else if (marked) rest = rest.replaceAll(secret, "");
  }
  if (marked && !told && rest.includes(MARK)) report(`something marked as secret in ${place}`);
}

/** What was found since it was last asked; empty when nothing was. For the tests of this file. */
export function takeLeaks(): readonly string[] {
  return leaks.splice(0);
}

const onPurpose: RegExp[] = [];

/** This file's own tests let a secret out there, to see what becomes of it: one place, by its whole name. */
export function leaksOnPurpose(place: RegExp): void {
  onPurpose.push(place);
}

function judge(): void {
  const found = [...new Set(takeLeaks())].filter((leak) => !onPurpose.some((place) => place.test(leak)));
  if (found.length > 0) expect.fail(`A secret left its place:\n${found.join("\n")}`);
}

/**
 * Begins to watch a test file: what was learned in the file before it, whose worlds have ended, is forgotten. Called by a setup
 * file, so before the test file's own first line; a worker may play several files (vitest.config.ts).
 */
export function watchThisFile(): void {
  for (const known of [owners, telling, silent, nonces]) known.clear();
  leaks.length = 0;
  onPurpose.length = 0;
  beforeEach((context) => {
    test = context.task.name;
  });
  afterEach(judge);
  // Worlds that live for a whole file end behind its last test.
  afterAll(judge);
}
