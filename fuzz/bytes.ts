/** Damage below the level of text: bytes flipped, cut, doubled, in another encoding. */
import * as fc from "fast-check";

const KINDS = ["flip", "cut", "remove", "double", "insert"] as const;

export interface ByteChange {
  readonly what: (typeof KINDS)[number];
  /** Where, in thousandths of the length. */
  readonly at: number;
  readonly by: number;
}

export const byteChange: fc.Arbitrary<ByteChange> = fc.record({
  what: fc.constantFrom(...KINDS),
  at: fc.nat(999),
  by: fc.nat(255),
});

export const ENCODINGS = ["utf8", "utf8-bom", "utf16le", "utf16be-bom", "latin1", "nul-tail"] as const;
export type Encoding = (typeof ENCODINGS)[number];

export function encode(text: string, encoding: Encoding): Uint8Array<ArrayBuffer> {
  switch (encoding) {
    case "utf8":
      return Uint8Array.from(Buffer.from(text, "utf8"));
    case "utf8-bom":
      return Uint8Array.from(Buffer.from(`\uFEFF${text}`, "utf8"));
    case "utf16le":
      return Uint8Array.from(Buffer.from(text, "utf16le"));
    case "utf16be-bom":
      return Uint8Array.from(Buffer.from(`\uFEFF${text}`, "utf16le").swap16());
    case "latin1":
      return Uint8Array.from(Buffer.from(`${text.slice(0, -1)}é}`, "latin1"));
    case "nul-tail":
      return Uint8Array.from(Buffer.from(`${text}\0`, "utf8"));
  }
}

export function damagedBytes(bytes: Uint8Array, changes: readonly ByteChange[]): Uint8Array<ArrayBuffer> {
  let now = Buffer.from(bytes);
  for (const { what, at, by } of changes) {
    const place = Math.floor((at / 1000) * now.length);
    const length = by + 1;
    switch (what) {
      case "flip":
        if (now.length > 0) now[place] = (now[place] ?? 0) ^ (by === 0 ? 1 : by);
        break;
      case "cut":
        now = now.subarray(0, place);
        break;
      case "remove":
        now = Buffer.concat([now.subarray(0, place), now.subarray(place + length)]);
        break;
      case "double":
        now = Buffer.concat([now.subarray(0, place + length), now.subarray(place)]);
        break;
      case "insert":
        now = Buffer.concat([now.subarray(0, place), Buffer.alloc((by % 7) + 1, by), now.subarray(place)]);
        break;
    }
  }
  return Uint8Array.from(now);
}
