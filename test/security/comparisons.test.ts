/** Comparisons of secrets: none may tell by its time how much of a guess was right, and a new one may not slip in. */
import { describe, expect, it } from "vitest";
import { sameDigest, sameSecret } from "../../shared/same-secret.ts";
import { filesUnder, read } from "../house/source.ts";

const PRODUCT = ["shared", "worker", "durable-objects", "cron", "cli"]
  .flatMap((folder) => filesUnder(folder))
  .filter((file) => file.endsWith(".ts"));

/** A value whose name says that it is secret, or the digest of something secret. */
const SECRET =
  /(?:^|[a-z])(?:secret|nonce|signature|bearer|password|apikey|privatekey|jitconfig|operatortoken|proofhash|exithash|hmac)s?$/i;

/** `a === b` and the like where neither side is a literal, null, undefined or a length. */
const COMPARISON = /([\w.?]+(?:\([^()]*\))?)\s*(?:===|!==|==|!=)\s*([\w.?"'`]+)/g;
const HARMLESS = /^(?:null|undefined|true|false|\d.*|["'`].*|typeof.*)$/;

function comparisonsOfSecrets(text: string): string[] {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, "");
  return [...code.matchAll(COMPARISON)]
    .filter(([, left = "", right = ""]) => !HARMLESS.test(left) && !HARMLESS.test(right))
    .filter(([, left = "", right = ""]) => [left, right].some((side) => SECRET.test(side.split(/[.?]+/).at(-1) ?? "")))
    .map(([whole]) => whole);
}

describe("a comparison of secrets", () => {
  it("is nowhere in the product but in the one helper (source)", () => {
    const found = PRODUCT.flatMap((file) => comparisonsOfSecrets(read(file)).map((text) => `${file}: ${text}`));
    expect(found).toEqual([]);
    expect(PRODUCT.length).toBeGreaterThan(150);
  });

  it("would be found if somebody wrote one", () => {
    for (const line of [
      "if (nonce === expected) return true;",
      "return header !== this.signature;",
      "known?.proofHash == hash",
      "shown === settings.operatorToken",
      "a.b.apiKey !== other",
      "const good = secret === given",
    ]) {
      expect(comparisonsOfSecrets(line), line).toHaveLength(1);
    }
    for (const line of [
      "if (nonce === undefined) return",
      "secret !== ''",
      "// nonce === expected",
      "nonces.length === 3",
    ]) {
      expect(comparisonsOfSecrets(line), line).toEqual([]);
    }
  });

  it("goes through the helper in each of the places where a caller shows one, or through the platform's own check", () => {
    expect(read("worker/operator.ts")).toContain("sameSecret(shown, settings.operatorToken)");
    const podCall = read("durable-objects/gate/pod-call.ts");
    for (const stored of ["proofHash", "exitHash"]) expect(podCall).toContain(`sameDigest(nonceHash, known.${stored})`);
    // The webhook's signature: the platform's HMAC check, by the library for text and directly for other bytes.
    const signature = read("worker/signature.ts");
    expect(signature).toContain('import { verify } from "@octokit/webhooks-methods"');
    expect(signature).toContain('crypto.subtle.verify("HMAC"');
    const library = read("node_modules/@octokit/webhooks-methods/dist-src/node/verify.js");
    expect(library).toContain("timingSafeEqual");
    expect(read("node_modules/@octokit/webhooks-methods/dist-src/web.js")).toContain("subtle.verify(");
  });

  it("looks at every character, whatever was right before", async () => {
    const looked: number[] = [];
    const spied = (text: string) =>
      ({
        length: text.length,
        charCodeAt: (at: number) => (looked.push(at), text.charCodeAt(at)),
      }) as unknown as string;
    const right = "a".repeat(64);
    for (const wrong of ["b".repeat(64), `${"a".repeat(63)}b`, "", `${right}a`, right.slice(1)]) {
      looked.length = 0;
      expect(sameDigest(spied(wrong), right)).toBe(false);
      expect(looked).toHaveLength(64);
    }
    expect(sameDigest(right, right)).toBe(true);
    expect([
      await sameSecret("x", "x"),
      await sameSecret("x", "y"),
      await sameSecret("", "y"),
      await sameSecret("xx", "x"),
    ]).toEqual([true, false, false, false]);
  });
});
