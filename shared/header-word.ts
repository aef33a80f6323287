/** Keys and tokens on their way into a header. */

/**
 * Whether this can stand in a header as one word: visible ASCII. A line break would end the header, and anything else is
 * refused by `fetch` before it is sent, which looks like a server that cannot be reached.
 */
export function isHeaderWord(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

/** What to say of one that is not, as the end of a sentence. */
export const NO_HEADER_WORD = "has a space, a line break or a character outside ASCII in it, and cannot be sent";
