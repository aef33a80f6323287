/**
 * Ids of requests: `r`, a counter, and the epoch of the database that counted, such as `r12bkztd`.
 *
 * A request's id names its attempts, pods, runs and check runs, and the account keeps the money of an attempt under it for
 * ever. A gate whose database is gone counts from one again: without an epoch its first attempts would carry names that are
 * taken, and the account would refuse them as settled. Databases of schema version 1 had none; theirs stays empty, so their
 * ids are `r12` still.
 */
import type { Random } from "../ports.ts";

/** Consonants: no epoch spells a word, and none can be taken for a digit of the counter. */
const LETTERS = "bcdfghjklmnpqrstvwxz";
/** Three million epochs: enough for the few databases that one repository ever has. */
const EPOCH_LENGTH = 5;

/** A request's id as people and other systems hand it back, without anchors. */
export const REQUEST_ID = String.raw`r[1-9]\d{0,14}(?:[b-df-hj-np-tv-xz]{5})?`;

const WHOLE_ID = new RegExp(`^${REQUEST_ID}$`);

export function isRequestId(text: string): boolean {
  return WHOLE_ID.test(text);
}

/** Drawn once for each database, when it is made. */
export function newEpoch(random: Random): string {
  return Array.from(random.bytes(EPOCH_LENGTH), (byte) => LETTERS.charAt(byte % LETTERS.length)).join("");
}

/** `epoch` is empty for a database that began without one. */
export function requestId(count: number, epoch: string): string {
  return `r${count}${epoch}`;
}
