import { createPublicKey, generateKeyPairSync } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { appJwt, at, listOf, openBench } from "./harness.ts";
import type { Bench } from "./harness.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());

function asApp(jwt: string) {
  return bench.raw("GET", "/app", { headers: { authorization: `Bearer ${jwt}` } });
}

describe("the App's JWT", () => {
  it("hands out the key as a PKCS#1 PEM that its own public half verifies", async () => {
    expect(bench.github.privateKeyPem).toMatch(/^-----BEGIN RSA PRIVATE KEY-----/);
    expect(createPublicKey(bench.github.privateKeyPem).asymmetricKeyType).toBe("rsa");
    const reply = await asApp(appJwt(bench.github));
    expect([reply.status, at(reply.body, "id")]).toEqual([200, Number(bench.github.appId)]);
  });

  it("refuses a JWT signed by another key, or with another algorithm", async () => {
    const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
      type: "pkcs1",
      format: "pem",
    });
    const forged = await asApp(appJwt(bench.github, {}, { alg: "RS256" }, String(other)));
    const unsigned = await asApp(appJwt(bench.github, {}, { alg: "none" }));
    expect([forged.status, unsigned.status]).toEqual([401, 401]);
  });

  it("refuses a JWT of another issuer", async () => {
    expect((await asApp(appJwt(bench.github, { iss: "99" }))).status).toBe(401);
  });

  const now = (): number => Math.floor(Date.now() / 1000);
  it.each([
    ["has expired", () => ({ exp: now() - 1 })],
    ["expires more than ten minutes ahead", () => ({ exp: now() + 700 })],
    ["has no expiry", () => ({ exp: undefined })],
    ["was issued in the future", () => ({ iat: now() + 120 })],
  ])("refuses a JWT that %s", async (_what, claims) => {
    expect((await asApp(appJwt(bench.github, claims()))).status).toBe(401);
  });

  it("keeps the App's routes to the JWT, and repositories' routes to installation tokens", async () => {
    const token = await bench.token();
    const asInstallation = await bench.raw("GET", "/app", { headers: { authorization: `Bearer ${token}` } });
    const asTheApp = await bench.app("GET", "/repos/octo/lab");
    const asNobody = await bench.raw("GET", "/repos/octo/lab");
    expect([asInstallation.status, asTheApp.status, asNobody.status]).toEqual([401, 403, 401]);
  });
});

describe("installation tokens", () => {
  it("are long opaque strings that say when they expire", async () => {
    const { id } = bench.github.installation("octo");
    const reply = await bench.app("POST", `/app/installations/${id}/access_tokens`);
    expect(reply.status).toBe(201);
    const token = String(at(reply.body, "token"));
    expect(token).toMatch(/^ghs_/);
    expect(token.length).toBeGreaterThan(480);
    const lifetime = Date.parse(String(at(reply.body, "expires_at"))) - Date.now();
    expect(lifetime).toBeGreaterThan(3_590_000);
    expect(lifetime).toBeLessThanOrEqual(3_600_000);
  });

  it("stop at their expiry with 401", async () => {
    let now = Date.now();
    const own = await openBench({ clock: { now: () => now } });
    const headers = { authorization: `Bearer ${await own.token()}` };
    now += 3_599_000;
    const before = await own.raw("GET", "/repos/octo/lab", { headers });
    now += 2_000;
    const after = await own.raw("GET", "/repos/octo/lab", { headers });
    await own.close();
    expect([before.status, after.status]).toEqual([200, 401]);
  });

  it("narrow to chosen permissions, and cannot widen", async () => {
    const narrow = await bench.token({ permissions: { checks: "read" } });
    const read = await bench.raw("GET", "/repos/octo/lab/commits/main/check-runs", {
      headers: { authorization: `token ${narrow}` },
    });
    const contents = await bench.raw("GET", "/repos/octo/lab/git/ref/heads/main", {
      headers: { authorization: `token ${narrow}` },
    });
    const { id } = bench.github.installation("octo");
    const wider = await bench.app("POST", `/app/installations/${id}/access_tokens`, {
      permissions: { contents: "write" },
    });
    expect([read.status, contents.status, wider.status]).toEqual([200, 403, 422]);
  });

  it("narrow to chosen repositories; the others answer 404", async () => {
    const other = bench.github.createRepository({ owner: "octo", name: "other" });
    const narrow = await bench.token({ repository_ids: [other.id] });
    const headers = { authorization: `token ${narrow}` };
    const [inside, outside, list] = await Promise.all([
      bench.raw("GET", "/repos/octo/other", { headers }),
      bench.raw("GET", "/repos/octo/lab", { headers }),
      bench.raw("GET", "/installation/repositories", { headers }),
    ]);
    expect([inside.status, outside.status]).toEqual([200, 404]);
    expect(listOf(list.body, "repositories").map((one) => one["name"])).toEqual(["other"]);
    const unknown = await bench.app(
      "POST",
      `/app/installations/${bench.github.installation("octo").id}/access_tokens`,
      { repositories: ["nope"] },
    );
    expect(unknown.status).toBe(422);
  });

  it("can be revoked by their holder", async () => {
    const headers = { authorization: `token ${await bench.token()}` };
    const revoked = await bench.raw("DELETE", "/installation/token", { headers });
    const after = await bench.raw("GET", "/repos/octo/lab", { headers });
    expect([revoked.status, after.status]).toEqual([204, 401]);
  });

  it("are worth nothing while the installation is suspended, and gone when it is uninstalled", async () => {
    const own = await openBench();
    const installation = own.github.installation("octo");
    const headers = { authorization: `token ${await own.token()}` };
    const mint = () => own.app("POST", `/app/installations/${installation.id}/access_tokens`);
    const read = () => own.raw("GET", "/repos/octo/lab", { headers });
    installation.suspend();
    const suspended = [(await read()).status, (await mint()).status];
    installation.unsuspend();
    const back = (await read()).status;
    installation.uninstall();
    const gone = [
      (await read()).status,
      (await mint()).status,
      (await own.app("GET", "/repos/octo/lab/installation")).status,
    ];
    await own.close();
    expect({ suspended, back, gone }).toEqual({ suspended: [403, 403], back: 200, gone: [401, 404, 404] });
  });
});

describe("permissions", () => {
  it("answer 403 with the permission the route needs", async () => {
    const own = await openBench();
    own.github.installation("octo").setPermissions({ metadata: "read", checks: "read" });
    const mayRead = await own.call("GET", "/repos/octo/lab/commits/main/check-runs");
    const write = await own.call("POST", "/repos/octo/lab/check-runs", { name: "x", head_sha: own.repo.sha() });
    const jit = await own.call("POST", "/repos/octo/lab/actions/runners/generate-jitconfig", {});
    await own.close();
    expect(mayRead.status).toBe(200);
    expect([write.status, write.headers.get("x-accepted-github-permissions")]).toEqual([403, "checks=write"]);
    expect([jit.status, jit.headers.get("x-accepted-github-permissions")]).toEqual([403, "administration=write"]);
  });

  it("taken from an installation are taken from the tokens it has out", async () => {
    const own = await openBench();
    const before = await own.call("GET", "/repos/octo/lab/actions/variables");
    own.github.installation("octo").setPermissions({ metadata: "read" });
    const after = await own.call("GET", "/repos/octo/lab/actions/variables");
    await own.close();
    expect([before.status, after.status]).toEqual([200, 403]);
  });

  it("do not reach a repository outside the installation: 404, as if it were not there", async () => {
    bench.github.createRepository({ owner: "stranger", name: "thing", installed: false });
    const reply = await bench.call("GET", "/repos/stranger/thing");
    const missing = await bench.call("GET", "/repos/octo/missing");
    expect([reply.status, missing.status]).toEqual([404, 404]);
  });
});
