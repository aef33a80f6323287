/** The book of secrets finds what a plain search finds, whatever it remembers of texts it has seen. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SecretBook } from "../../sim/checkers/secret-book.ts";

const piece = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 16 });

describe("a book of secrets", () => {
  it("agrees with a plain search at any time, for texts seen before too", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.boolean(), piece), { maxLength: 300 }), fc.nat(9), (acts, few) => {
        const book = new SecretBook();
        const secrets: string[] = [];
        // Many secrets at once take the other way of searching.
        for (let index = 0; index < few * 30; index += 1) {
          const secret = `many-${index}-of-them-${index}`;
          secrets.push(secret);
          book.add(secret);
        }
        for (const [adds, text] of acts) {
          if (adds) {
            const secret = text.repeat(3);
            secrets.push(secret);
            book.add(secret);
          }
          const around = `ab${text.repeat(4)}ba`;
          expect(book.isIn(around)).toBe(secrets.some((secret) => around.includes(secret)));
        }
      }),
      { numRuns: 60 },
    );
  });

  it("lets those stand that may, and remembers no text as clean for that", () => {
    const book = new SecretBook();
    book.add("the secret of this pod");
    book.add("the secret of another");
    const text = "it says: the secret of this pod";
    expect(book.isIn(text, new Set(["the secret of this pod"]))).toBe(false);
    expect(book.isIn(text)).toBe(true);
    expect(book.isIn(text, new Set(["the secret of another"]))).toBe(true);
  });
});
