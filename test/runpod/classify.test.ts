import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { classifyCreate, speaksOfBalance, speaksOfCapacity } from "../../shared/runpod/classify.ts";
import type { CreateOutcome, HttpAnswer } from "../../shared/runpod/classify.ts";

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);

function answer(status: number, bodyText: string, headers: Record<string, string> = {}): HttpAnswer {
  return { status, contentType: headers["content-type"] ?? null, bodyText, headers };
}

function problem(status: number, detail: string, errors?: readonly string[]): HttpAnswer {
  const body = { title: "x", status, detail, ...(errors === undefined ? {} : { errors }) };
  return answer(status, JSON.stringify(body), { "content-type": "application/problem+json" });
}

const classify = (given: HttpAnswer, secrets: readonly string[] = []): CreateOutcome =>
  classifyCreate(given, { now: NOW, secrets });

const NO_INSTANCES = "There are no longer any instances available with the requested specifications.";

describe("N118: every status and text has its own meaning on create", () => {
  const rows: readonly (readonly [string, HttpAnswer, string])[] = [
    ["v2 shortage under 400", problem(400, NO_INSTANCES), "capacity"],
    [
      "v1 shortage under 500",
      answer(500, '{"error":"create pod: There are no instances currently available"}'),
      "capacity",
    ],
    ["upstream's own words", answer(503, "There is NO available machine"), "capacity"],
    [
      "no resources",
      answer(502, '{"error":"This machine does not have the resources to deploy your pod"}'),
      "capacity",
    ],
    ["over-constrained", answer(500, "could not find any pods with required specifications"), "capacity"],
    ["capacity words under 404", problem(404, "no instances available"), "capacity"],
    ["capacity words under 422", problem(422, "no instances available"), "capacity"],
    ["capacity words under 302", answer(302, "no instances available"), "capacity"],
    ["words broken over lines", answer(500, "no\n  instances   available"), "capacity"],
    ["a rule broken", problem(400, "request could not be processed"), "invalid"],
    [
      "a contract broken",
      problem(422, "Request validation failed.", ["$: additional properties 'x' not allowed"]),
      "invalid",
    ],
    [
      "a missing image property",
      problem(422, "Request validation failed.", ["$: missing property 'image'"]),
      "invalid",
    ],
    [
      "an image that is not there",
      problem(422, "image ghcr.test/x@sha256:1 was not found in its registry"),
      "image-refused",
    ],
    ["a manifest that is not there", problem(400, "manifest unknown"), "image-refused"],
    ["a template of no account", problem(404, "template not found"), "invalid"],
    ["not allowed here", problem(405, "The requested method is not allowed for this path."), "invalid"],
    ["a conflict", answer(409, ""), "invalid"],
    ["too large", answer(413, ""), "invalid"],
    ["a redirect", answer(302, ""), "invalid"],
    ["no status at all", answer(0, ""), "invalid"],
    ["no money", answer(402, ""), "balance"],
    ["no money, in words", problem(400, "INSUFFICIENT_BALANCE"), "balance"],
    ["no key", problem(401, "missing bearer token"), "unauthorized"],
    ["no access to the pool", problem(403, "access denied"), "pool-forbidden"],
    ["Cloudflare in text", answer(403, "error code: 1010"), "edge-blocked"],
    ["Cloudflare in HTML", answer(403, "<html>blocked</html>", { "content-type": "text/html" }), "edge-blocked"],
    ["Cloudflare in JSON", answer(403, '{"title":"x","cloudflare_error":true,"error_code":1010}'), "edge-blocked"],
    ["Cloudflare without words", answer(403, ""), "edge-blocked"],
    ["too fast", problem(429, "rate limit exceeded for the minute window"), "rate-limited"],
    ["gone", answer(410, ""), "retired"],
    ["the v1 envelope", answer(400, '{"error":"Extra input keys provided in request body"}'), "retired"],
    ["408", answer(408, ""), "ambiguous"],
    ["500", answer(500, "Internal Server Error"), "ambiguous"],
    ["599", answer(599, ""), "ambiguous"],
    ["a caller's mistake sent as 500", answer(500, '{"error":"network volume not found"}'), "ambiguous"],
    ["a 201 without a body", answer(201, ""), "ambiguous"],
    ["a 201 cut off", answer(201, '{"id":"pod1"'), "ambiguous"],
    ["a 201 with an empty id", answer(201, '{"id":""}'), "ambiguous"],
    ["a 201 with a number for an id", answer(201, '{"id":7}'), "ambiguous"],
    [
      "a 200 that speaks of capacity",
      answer(200, JSON.stringify({ errors: [{ message: NO_INSTANCES }] })),
      "ambiguous",
    ],
    ["a pod", answer(201, '{"id":"pod1"}'), "created"],
    ["a pod in a 200", answer(200, '{"id":"pod1"}'), "created"],
  ];
  test.each(rows)("%s", (_what, given, kind) => {
    expect(classify(given).kind).toBe(kind);
  });

  test.each(["timeout", "network"] as const)("N02: a create that ends in %s may have bought a pod", (transport) => {
    expect(classifyCreate({ transport }, { now: NOW })).toMatchObject({ kind: "ambiguous", why: transport });
  });
});

describe("what an outcome carries", () => {
  test("a 429 says how long to wait", () => {
    const given = { ...problem(429, "slow down"), headers: { "Retry-After": "9" } };
    expect(classify(given)).toEqual({ kind: "rate-limited", retryAfterMs: 9_000 });
  });

  test("an ambiguous answer keeps its wait for the retry after the look-up", () => {
    expect(classify(answer(503, "", { "retry-after": "600" }))).toEqual({
      kind: "ambiguous",
      why: "http-5xx",
      status: 503,
      retryAfterMs: 600_000,
    });
  });

  test("a refusal tells RunPod's reasons", () => {
    const given = problem(422, "Request validation failed.", ["$: missing property 'dataCenter'"]);
    expect(classify(given)).toMatchObject({
      details: ["Request validation failed.", "$: missing property 'dataCenter'", "x"],
    });
  });

  test("N151: a refusal that quotes the request shows none of its secrets", () => {
    const jit = "eyJhZ2VudCI6IjEifQ-jit-canary";
    const long = "x".repeat(40);
    const given = problem(422, `env: ${jit} is not allowed`, [`value "${long}"`, "nonce short1 bad"]);
    const shown = JSON.stringify(classify(given, [jit, "short1"]));
    for (const secret of [jit, long, "short1"]) expect(shown).not.toContain(secret);
  });

  test("N151: a secret quoted in a body that is not JSON is not shown either", () => {
    const jit = "jit-canary-value";
    expect(JSON.stringify(classify(answer(400, `cannot use ${jit} here`), [jit]))).not.toContain(jit);
  });

  test("a page of HTML shows nothing", () => {
    expect(classify(answer(404, "<!doctype html><title>nope</title>"))).toEqual({
      kind: "invalid",
      status: 404,
      details: [],
    });
  });
});

test("classification is total: any status and any body give exactly one outcome", () => {
  const bodies = fc.oneof(fc.string(), fc.json(), fc.constantFrom('{"error":"x"}', '{"id":"p"}', NO_INSTANCES));
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999 }), bodies, fc.option(fc.string()), (status, bodyText, retryAfter) => {
      const headers: Record<string, string> = retryAfter === null ? {} : { "Retry-After": retryAfter };
      const outcome = classify(answer(status, bodyText, headers));
      const success = status >= 200 && status <= 299;
      // A pod is claimed only on a success, and after a success nothing but a pod or doubt is possible.
      const claimed = outcome.kind === "created";
      expect(success ? claimed || outcome.kind === "ambiguous" : !claimed).toBe(true);
    }),
  );
});

const SAMPLES = resolve(import.meta.dirname, "../../../shared/reference/runpod-error-samples.json");
interface Sample {
  readonly status: number;
  readonly body: string;
  readonly class: "capacity" | "transient" | "permanent" | "auth" | "balance";
}

describe.skipIf(!existsSync(SAMPLES))(
  "recorded answers (skipped where the reference folder is not checked out)",
  () => {
    const samples: readonly Sample[] = existsSync(SAMPLES)
      ? (JSON.parse(readFileSync(SAMPLES, "utf8")) as Sample[])
      : [];
    /** Which outcomes fit which class of the table. */
    const fits: Readonly<Record<Sample["class"], readonly CreateOutcome["kind"][]>> = {
      capacity: ["capacity"],
      transient: ["ambiguous", "rate-limited"],
      permanent: ["invalid", "retired", "edge-blocked", "image-refused"],
      auth: ["unauthorized", "pool-forbidden"],
      balance: ["balance"],
    };

    test.each(samples.filter((sample) => sample.status !== 200))("$status $class $body", (sample) => {
      const { kind } = classify(answer(sample.status, sample.body));
      // A mistake of ours that arrives as 500 cannot be told from a create that half happened: it is looked up first.
      const allowed = sample.status >= 500 && sample.class === "permanent" ? ["ambiguous"] : fits[sample.class];
      expect(allowed).toContain(kind);
    });

    test.each(samples.filter((sample) => sample.status === 200))("GraphQL 200 $class $body", (sample) => {
      // v2 never answers so; on a create a 2xx without a pod is doubt, whatever it says. The words are known all the same.
      expect(classify(answer(200, sample.body)).kind).toBe("ambiguous");
      expect(speaksOfCapacity(sample.body)).toBe(sample.class === "capacity");
      expect(speaksOfBalance(sample.body)).toBe(sample.class === "balance");
    });
  },
);
