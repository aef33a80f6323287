/** Deliveries that GitHub did not sign. What each answer says is in test/workerd/webhooks.test.ts; here: none opens anything. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { openBoundary, PREVIOUS, pullRequest, SECRET, signature } from "./boundary.ts";

const BODY = JSON.stringify(pullRequest());
const GOOD = signature(BODY);
const HEX = GOOD.slice("sha256=".length);
const utf8 = (text: string) => Uint8Array.from(new TextEncoder().encode(text));

interface Attack {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly secrets?: readonly string[];
}

const sent = (value: string): Attack => ({ headers: { "x-hub-signature-256": value } });

const ATTACKS: Readonly<Record<string, Attack>> = {
  "no signature": { headers: {} },
  "an empty header": sent(""),
  "the old SHA-1 header alone": { headers: { "x-hub-signature": signature(BODY, SECRET, "sha1") } },
  "the right digest in the SHA-1 header": { headers: { "x-hub-signature": GOOD } },
  "SHA-1 in the new header": sent(signature(BODY, SECRET, "sha1")),
  "SHA-512 in the new header": sent(signature(BODY, SECRET, "sha512")),
  "another algorithm's name before the right digest": sent(`sha1=${HEX}`),
  "no algorithm": sent(HEX),
  "the name in capitals": sent(`SHA256=${HEX}`),
  "the digest in capitals": sent(`sha256=${HEX.toUpperCase()}`),
  "a blank inside": sent(`sha256= ${HEX}`),
  "one digit less": sent(GOOD.slice(0, -1)),
  "one digit more": sent(`${GOOD}0`),
  "the digest in base64": sent(`sha256=${Buffer.from(HEX, "hex").toString("base64")}`),
  "the right signature behind a wrong one": sent(`sha256=${"0".repeat(64)}, ${GOOD}`),
  "the right signature before a wrong one": sent(`${GOOD},sha256=${"0".repeat(64)}`),
  "all zeros": sent(`sha256=${"0".repeat(64)}`),
  "the empty secret": sent(signature(BODY, "")),
  "the empty secret, while the previous one is not set": { ...sent(signature(BODY, "")), secrets: [SECRET] },
  "a secret that begins like ours": sent(signature(BODY, SECRET.slice(0, -1))),
  "our secret with a line's end": sent(signature(BODY, `${SECRET}\n`)),
  "the previous secret after the rotation": { ...sent(signature(BODY, PREVIOUS)), secrets: [SECRET] },
  "a plain hash of the body": sent(`sha256=${createHash("sha256").update(BODY).digest("hex")}`),
  "the signature of another body": sent(signature(JSON.stringify(pullRequest({ number: 8 })))),
  "the same JSON with a blank more": { ...sent(GOOD), body: BODY.replace(":", ": ") },
  "the same JSON with an escaped letter": { ...sent(GOOD), body: BODY.replace("opened", "\\u006fpened") },
  "the body with a line's end": { ...sent(GOOD), body: `${BODY}\n` },
  "the body behind a byte order mark": { ...sent(GOOD), body: `\ufeff${BODY}` },
  "the body in UTF-16": { ...sent(GOOD), body: Uint8Array.from(Buffer.from(BODY, "utf16le")) },
  "the body, and more behind a NUL": { ...sent(GOOD), body: utf8(`${BODY}\0${BODY}`) },
  "a body that says that it is compressed": {
    headers: { "x-hub-signature-256": GOOD, "content-encoding": "gzip" },
    body: `${BODY} `,
  },
  "a form, whose signature covers other bytes": {
    headers: {
      "x-hub-signature-256": signature(`payload=${BODY}`),
      "content-type": "application/x-www-form-urlencoded",
    },
    body: `payload=${BODY}`,
  },
};

describe("a forged delivery", () => {
  it.each(Object.entries(ATTACKS))("%s opens nothing", async (_name, { headers, body = BODY, secrets }) => {
    const world = openBoundary(secrets);
    const answer = await world.post(body, headers);
    expect([401, 415]).toContain(answer.status);
    expect(world.requests()).toEqual([]);
    expect(world.calls).toEqual([]);
    const told = `${await answer.text()}${JSON.stringify([...answer.headers])}${JSON.stringify(world.ports.logged)}`;
    for (const secret of [SECRET, PREVIOUS, HEX]) expect(told).not.toContain(secret);
  });

  it("is really what is refused: the same body, signed with either secret, opens a request", async () => {
    const world = openBoundary();
    expect(await world.deliver("pull_request", BODY)).toBe("202 Accepted.");
    expect(world.requests()).toHaveLength(1);
    const other = openBoundary();
    expect(await other.deliver("pull_request", BODY, "guid-2", PREVIOUS)).toBe("202 Accepted.");
  });
});
