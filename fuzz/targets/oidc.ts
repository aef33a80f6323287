/**
 * Tokens of hosted jobs, forged and damaged, shown to the workflow API. A token opens a request if and only if the model
 * below says so: it is written from the documentation, reads the token by itself, and knows nothing of the product's code.
 */
import { createHmac, createSign, createVerify } from "node:crypto";
import * as fc from "fast-check";
import {
  base64url,
  claims,
  GATE_URL,
  ISSUER,
  KEY,
  MAIN,
  NOW,
  openBench,
  RECOVERY,
  signingKey,
  type Bench,
  type Json,
} from "../../test/oidc/harness.ts";
import { damagedJson, jsonChange, type JsonChange } from "../json.ts";
import { target, unfit, type Session } from "../target.ts";

const STRANGER = signingKey("stranger");
const SECONDS = Math.floor(NOW / 1000);

const SIGNERS = [
  "issuer",
  "stranger",
  "public-key-as-secret",
  "none",
  "empty-secret",
  "not-signed",
  "other-text",
] as const;
const HEADERS: readonly Json[] = [
  {},
  { alg: "none" },
  { alg: "None" },
  { alg: "HS256" },
  { alg: "RS512" },
  { alg: "PS256" },
  { alg: ["RS256"] },
  { kid: "stranger" },
  { kid: "" },
  { kid: "../../key-1" },
  { kid: "__proto__" },
  { kid: ["key-1"] },
  { kid: "key-1\u0000" },
  { jku: "https://evil.test/jwks" },
  { x5u: "https://evil.test/cert" },
  { jwk: { kty: "RSA" } },
  { x5c: ["MIIB"] },
  { crit: ["exp"] },
  { crit: ["b64"], b64: false },
  { b64: false },
  { cty: "JWT" },
  { zip: "DEF" },
  { typ: "at+jwt" },
];

/** What is said in place of a genuine claim. Undefined leaves it out. */
const CLAIMS: readonly Json[] = [
  {},
  { aud: [GATE_URL] },
  { aud: [GATE_URL, "https://other.test"] },
  { aud: `${GATE_URL}/` },
  { aud: `${GATE_URL}/v1/read-only` },
  { iss: `${ISSUER}/` },
  { iss: "https://evil.test" },
  { exp: SECONDS - 59 },
  { exp: SECONDS - 61 },
  { exp: SECONDS + 999_999_999 },
  { exp: String(SECONDS + 100) },
  { exp: undefined },
  { iat: SECONDS - 599, exp: SECONDS + 10 },
  { iat: SECONDS - 601, exp: SECONDS + 10 },
  { iat: SECONDS + 59 },
  { iat: SECONDS + 61 },
  { nbf: SECONDS + 61 },
  { nbf: SECONDS + 59 },
  { nbf: undefined },
  { iat: undefined },
  { jti: undefined },
  { jti: "short" },
  { jti: "the-same-token-id" },
  { repository_id: "102" },
  { repository_id: "103" },
  { repository_id: 101 },
  { repository: "octo/Engine" },
  { repository: "evil/engine" },
  { repository_owner_id: "10" },
  { actor_id: "502" },
  { event_name: "pull_request_target" },
  { event_name: "push" },
  { ref: "refs/heads/main " },
  { ref: "refs/tags/main" },
  { run_attempt: "2" },
  { run_attempt: 1 },
  { run_id: "7002" },
  { runner_environment: "self-hosted" },
  { sha: "d".repeat(40) },
  { job_workflow_ref: `octo/engine/${RECOVERY}@refs/heads/main2` },
  { job_workflow_ref: `octo/engine/${RECOVERY}@refs/tags/main` },
  { job_workflow_ref: `evil/engine/${RECOVERY}@refs/heads/main` },
  { job_workflow_ref: "octo/engine/.github/workflows/gpu-gate-execute.yml@refs/heads/main" },
  { workflow_ref: `octo/engine/.github/workflows/x.yml@refs/heads/main` },
  { sub: "repo:evil/engine:ref:refs/heads/main" },
  { actor: "nobody" },
  { workflow: "other" },
  { environment: "production" },
];

const TAMPERS = [
  "no",
  "payload-after",
  "cut",
  "extra-part",
  "padding",
  "case",
  "blank",
  "nested",
  "huge",
  "other-header",
  "standard-alphabet",
] as const;

export interface TokenCase {
  readonly header: readonly number[];
  readonly claims: readonly number[];
  readonly headerJson: readonly JsonChange[];
  readonly payloadJson: readonly JsonChange[];
  readonly signer: (typeof SIGNERS)[number];
  readonly tamper: (typeof TAMPERS)[number];
  readonly scheme: string;
}

const sometimes = <T>(arbitrary: fc.Arbitrary<T>, max: number, weight: number): fc.Arbitrary<readonly T[]> =>
  fc.oneof(
    { weight, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(arbitrary, { minLength: 1, maxLength: max }) },
  );

export const oidc = target<TokenCase>({
  name: "oidc",
  about: "identity tokens, forged and damaged, against an independent model",
  share: 15,
  sample: 120,
  cases: fc.record({
    header: sometimes(fc.nat(HEADERS.length - 1), 2, 3),
    claims: sometimes(fc.nat(CLAIMS.length - 1), 3, 1),
    headerJson: sometimes(jsonChange, 2, 6),
    payloadJson: sometimes(jsonChange, 3, 4),
    signer: fc.oneof(
      { weight: 5, arbitrary: fc.constant("issuer" as const) },
      { weight: 1, arbitrary: fc.constantFrom(...SIGNERS) },
    ),
    tamper: fc.oneof(
      { weight: 5, arbitrary: fc.constant("no" as const) },
      { weight: 1, arbitrary: fc.constantFrom(...TAMPERS) },
    ),
    scheme: fc.oneof(
      { weight: 9, arbitrary: fc.constant("Bearer") },
      { weight: 1, arbitrary: fc.constantFrom("bearer", "BEARER", "Token", "Bearer ", "") },
    ),
  }),
  open: async () => openTokens(openBench),
});

/** A bench remembers every token it has seen and every call it has made. */
const TOKENS_PER_BENCH = 300;

export function openTokens(made: () => Bench): Session<TokenCase> {
  let bench = made();
  let spent = new Set<string>();
  let tried = 0;
  return {
    async judge(given) {
      tried += 1;
      if (tried % TOKENS_PER_BENCH === 0) {
        bench = made();
        spent = new Set();
      }
      const token = tokenOf(given);
      const opened = bench.opened.length;
      const asked = bench.keyFetches();
      const answer = await bench.send("/v1/recover", { authorization: `${given.scheme} ${token}` }, '{"pr_number":7}');
      const text = await answer.text();
      const expected = model(given.scheme, token, spent);
      const accepted = answer.status === 202;
      const because = JSON.stringify(bench.log.at(-1) ?? null).slice(0, 300);
      if (accepted !== expected.opens) {
        return `${accepted ? "accepted" : "refused"} (${answer.status}), the model says ${expected.why}; ${because}`;
      }
      if (accepted !== bench.opened.length > opened)
        return `answered ${answer.status} and ${accepted ? "opened nothing" : "opened a request"}`;
      // The bench's GitHub knows one run; of any other it says nothing.
      const unknownRun =
        answer.status === 503 && expected.why.endsWith("the claim run_id") && text.includes('"unavailable"');
      if (!accepted && answer.status !== 401 && answer.status !== 403 && !unknownRun)
        return `refused with ${answer.status}: ${text.slice(0, 200)}; ${because}`;
      // A key id somebody invented is worth one look in a while, not one each.
      if (bench.keyFetches() - asked > 1) return "one token made it fetch the keys more than once";
      return unfit(text, [token.split(".")[2] ?? ""]);
    },
    close: async () => undefined,
  };
}

function tokenOf(given: TokenCase): string {
  const header: Json = { alg: "RS256", typ: "JWT", kid: KEY.kid };
  for (const at of given.header) Object.assign(header, HEADERS[at % HEADERS.length]);
  const payload = claims();
  for (const at of given.claims) Object.assign(payload, CLAIMS[at % CLAIMS.length]);
  if (given.tamper === "nested") payload["jti"] = `${base64url({ alg: "RS256" })}.${base64url({})}.x`.padEnd(20, "x");
  if (given.tamper === "huge") payload["pad"] = "x".repeat(20_000);
  const h = base64url(damagedJson(header, given.headerJson));
  const p = base64url(damagedJson(payload, given.payloadJson));
  const text = `${h}.${p}`;
  const token = `${text}.${signature(given.signer, text)}`;
  const [first = "", second = "", third = ""] = token.split(".");
  switch (given.tamper) {
    case "no":
    case "nested":
    case "huge":
      return token;
    case "payload-after":
      return `${first}.${base64url(JSON.stringify({ ...payload, actor_id: "501", run_id: "7001", more: 1 }))}.${third}`;
    case "other-header":
      return `${base64url(JSON.stringify({ ...header, more: 1 }))}.${second}.${third}`;
    case "cut":
      return token.slice(0, -9);
    case "extra-part":
      return `${token}.${third}`;
    case "padding":
      return `${token}=`;
    case "case":
      return `${first}.${second.toUpperCase()}.${third}`;
    case "blank":
      return `${first}. ${second}.${third}`;
    case "standard-alphabet":
      return token.replaceAll("-", "+").replaceAll("_", "/");
  }
}

function signature(signer: TokenCase["signer"], text: string): string {
  const rsa = (key: typeof KEY, over = text): string =>
    createSign("RSA-SHA256").update(over).sign(key.privateKey, "base64url");
  switch (signer) {
    case "issuer":
      return rsa(KEY);
    case "stranger":
      return rsa(STRANGER);
    case "other-text":
      return rsa(KEY, `${text}x`);
    case "public-key-as-secret":
      return createHmac("sha256", KEY.publicKey.export({ type: "spki", format: "pem" }))
        .update(text)
        .digest("base64url");
    case "empty-secret":
      return createHmac("sha256", "").update(text).digest("base64url");
    case "none":
      return "";
    case "not-signed":
      return "c2lnbmF0dXJl";
  }
}

interface Verdict {
  readonly opens: boolean;
  readonly why: string;
}

/** Whether this token may open a request: docs/workflow-api.md, read by hand. A token that came this far is spent. */
function model(scheme: string, token: string, spent: Set<string>): Verdict {
  const no = (why: string): Verdict => ({ opens: false, why: `no: ${why}` });
  if (!/^bearer$/i.test(scheme.trim()) || scheme.length !== 6) return no("no bearer token");
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token) || token.length > 16_384) return no("not three parts");
  const [h = "", p = "", s = ""] = token.split(".");
  const header = jsonOf(h);
  if (header === null || header["alg"] !== "RS256" || header["kid"] !== KEY.kid) return no("another key or algorithm");
  // RFC 7515, 4.1.11: who does not know an extension that is said to be critical refuses the token.
  if (Object.hasOwn(header, "crit")) return no("a critical extension");
  if (!createVerify("RSA-SHA256").update(`${h}.${p}`).verify(KEY.publicKey, s, "base64url")) return no("the signature");
  const claim = jsonOf(p);
  if (claim === null) return no("the payload");
  const text = (name: string): string => {
    const value = Object.hasOwn(claim, name) ? claim[name] : undefined;
    return typeof value === "string" ? value : "";
  };
  const seconds = (name: string): number => {
    const value = Object.hasOwn(claim, name) ? claim[name] : undefined;
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : Number.NaN;
  };
  const [exp, iat] = [seconds("exp"), seconds("iat")];
  const nbf = claim["nbf"] === undefined ? iat : seconds("nbf");
  if (text("iss") !== ISSUER || text("aud") !== GATE_URL) return no("issuer or audience");
  if (!(exp >= SECONDS - 60 && iat <= SECONDS + 60 && nbf <= SECONDS + 60)) return no("the times");
  if (!(iat >= SECONDS - 3_600)) return no("older than anything may be");
  const jti = text("jti");
  if (jti.length < 8 || jti.length > 200) return no("no token id");
  const numeric = ["repository_id", "repository_owner_id", "actor_id", "run_id"].every((name) =>
    /^[1-9]\d{0,19}$/.test(text(name)),
  );
  const named = ["repository", "event_name", "ref", "job_workflow_ref", "workflow_ref", "runner_environment"].every(
    (name) => text(name) !== "" && text(name).length <= 500,
  );
  if (
    !numeric ||
    !named ||
    !/^[1-9]\d{0,5}$/.test(text("run_attempt")) ||
    !/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text("sha"))
  ) {
    return no("a claim is missing");
  }
  if (!["101", "102"].includes(text("repository_id"))) return no("a repository that is not served");
  // Each repository's gate has a memory of its own; the bench has one for all.
  if (spent.has(jti)) return no("spent before");
  spent.add(jti);
  if (iat < SECONDS - 600) return no("older than the configuration allows");
  const ours: Record<string, string> = {
    repository: "octo/engine",
    repository_id: "101",
    repository_owner_id: "9",
    run_attempt: "1",
    event_name: "workflow_dispatch",
    ref: "refs/heads/main",
    runner_environment: "github-hosted",
    job_workflow_ref: `octo/engine/${RECOVERY}@refs/heads/main`,
    workflow_ref: `octo/engine/${RECOVERY}@refs/heads/main`,
  };
  // What only the run can contradict comes last.
  Object.assign(ours, { run_id: "7001", sha: MAIN, actor_id: "501" });
  const wrong = Object.entries(ours).find(([name, value]) => text(name) !== value);
  return wrong === undefined ? { opens: true, why: "yes" } : no(`the claim ${wrong[0]}`);
}

function jsonOf(part: string): Record<string, unknown> | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(Buffer.from(part, "base64url"));
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}
