import { generateKeyPairSync } from "node:crypto";
import { describe, expect, it } from "vitest";
import { checkAppKey, normalizeAppKey } from "../../shared/github/app-key.ts";

function rsa(bits: number): { pkcs1: string; pkcs8: string } {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: bits });
  return {
    pkcs1: privateKey.export({ type: "pkcs1", format: "pem" }).toString(),
    pkcs8: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

const key = rsa(2048);

describe("normalizeAppKey", () => {
  // Small keys have short DER lengths, large ones long: each length form is a way to get the wrapper wrong.
  it.each([512, 1024, 2048, 4096])("wraps a PKCS#1 key of %i bits into exactly the PKCS#8 export", (bits) => {
    const { pkcs1, pkcs8 } = rsa(bits);
    expect(normalizeAppKey(pkcs1)).toEqual({ ok: true, value: pkcs8 });
  });

  it.each([
    ["PKCS#8", key.pkcs8],
    ["PKCS#8 with escaped newlines", key.pkcs8.replaceAll("\n", "\\n")],
    ["PKCS#1 with escaped newlines", key.pkcs1.replaceAll("\n", "\\n")],
    ["PKCS#1 with Windows line ends", key.pkcs1.replaceAll("\n", "\r\n")],
    ["PKCS#1 with escaped Windows line ends", key.pkcs1.replaceAll("\n", "\\r\\n")],
    ["PKCS#1 with blank lines around it", `\n\n  ${key.pkcs1}\n\n`],
  ])("accepts %s", (_name, text) => {
    expect(normalizeAppKey(text)).toEqual({ ok: true, value: key.pkcs8 });
  });

  const { privateKey: ec, publicKey: ecPublic } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { privateKey: locked } = generateKeyPairSync("rsa", { modulusLength: 1024 });
  const cut = key.pkcs1.split("\n");

  it.each([
    ["an empty text", "  \n", "missing"],
    ["a text that is no PEM", "c2VjcmV0", "not-pem"],
    ["the first line alone", "-----BEGIN RSA PRIVATE KEY-----", "damaged"],
    ["a key that lost a line", [...cut.slice(0, 5), ...cut.slice(6)].join("\n"), "damaged"],
    ["a body that is no base64", "-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----", "damaged"],
    ["first and last line of two kinds", key.pkcs1.replace("END RSA PRIVATE", "END PRIVATE"), "damaged"],
    ["an EC key", ec.export({ type: "pkcs8", format: "pem" }).toString(), "wrong-kind"],
    ["an EC key of the older form", ec.export({ type: "sec1", format: "pem" }).toString(), "wrong-kind"],
    ["a public key", ecPublic.export({ type: "spki", format: "pem" }).toString(), "wrong-kind"],
    [
      "an OpenSSH key",
      "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----",
      "wrong-kind",
    ],
    [
      "an encrypted PKCS#8 key",
      locked.export({ type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "x" }).toString(),
      "encrypted",
    ],
    [
      "an encrypted PKCS#1 key",
      locked.export({ type: "pkcs1", format: "pem", cipher: "aes-256-cbc", passphrase: "x" }).toString(),
      "encrypted",
    ],
  ])("refuses %s, says why and never quotes it", (_name, text, reason) => {
    const refused = normalizeAppKey(text);
    expect(refused).toMatchObject({ ok: false, error: { reason } });
    const message = refused.ok ? "" : refused.error.message;
    expect(message).toMatch(/^The App's private key cannot be used: .+; set GITHUB_APP_PRIVATE_KEY .+\.$/);
    for (const line of text.split("\n").filter((part) => part.length >= 8 && !part.startsWith("-----"))) {
      expect(message).not.toContain(line);
    }
  });
});

describe("checkAppKey", () => {
  it("makes a signature with a PKCS#1 key and tells its size", async () => {
    expect(await checkAppKey(key.pkcs1)).toEqual({ ok: true, value: { bits: 2048 } });
  });

  it("reports a key of the right form that cannot sign", async () => {
    // SEQUENCE { INTEGER 0, INTEGER 1 }: shaped like PKCS#1, but no key.
    const hollow = Buffer.from([0x30, 0x06, 0x02, 0x01, 0x00, 0x02, 0x01, 0x01]).toString("base64");
    const pem = `-----BEGIN RSA PRIVATE KEY-----\n${hollow}\n-----END RSA PRIVATE KEY-----`;
    expect(await checkAppKey(pem)).toMatchObject({ ok: false, error: { reason: "unusable" } });
  });

  it("reports what normalizeAppKey refuses", async () => {
    expect(await checkAppKey("")).toMatchObject({ ok: false, error: { reason: "missing" } });
  });
});
