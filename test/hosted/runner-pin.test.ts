import { describe, expect, test } from "vitest";
import { gpuGate } from "./io.ts";

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;

interface World {
  /** Digest of each tag at the registry. */
  readonly tags: Readonly<Record<string, string>>;
  /** Age in days of each release. */
  readonly releases: Readonly<Record<string, number>>;
  readonly releasesStatus?: number;
  readonly registryStatus?: number;
}

const NOW = Date.parse("2026-10-01T00:00:00Z");

/** A registry and a GitHub that answer as theirs do; records what was asked. */
function run(world: World, args: readonly string[] = []) {
  const asked: string[] = [];
  const answer = gpuGate(["runner-pin", ...args], {
    env: { GPU_GATE_TOKEN: "t", GITHUB_API_URL: "https://github.test", IMAGE_REGISTRY_URL: "https://registry.test" },
    now: () => NOW,
    fetch: async (url) => {
      asked.push(url);
      if (url.startsWith("https://github.test/repos/actions/runner/releases")) {
        const listing = Object.entries(world.releases).map(([version, days]) => ({
          tag_name: `v${version}`,
          published_at: new Date(NOW - days * 86_400_000).toISOString(),
          draft: false,
          prerelease: version.includes("rc"),
        }));
        return Response.json(listing, { status: world.releasesStatus ?? 200 });
      }
      const tag = /^https:\/\/registry\.test\/v2\/actions\/actions-runner\/manifests\/(.+)$/.exec(url)?.[1] ?? "";
      const found = world.tags[tag];
      if (world.registryStatus !== undefined) return new Response(null, { status: world.registryStatus });
      return new Response(
        null,
        found === undefined ? { status: 404 } : { headers: { "docker-content-digest": found } },
      );
    },
  });
  return { answer, asked };
}

const fresh: World = {
  tags: { latest: digest("b"), "2.337.0": digest("b"), "2.336.0": digest("a") },
  releases: { "2.336.0": 60, "2.337.0": 30 },
};

describe("a moving tag", () => {
  test("is fine when it names the newest release", async () => {
    const answer = await run(fresh).answer;
    expect(answer).toEqual({
      code: 0,
      out: "::notice title=Runner image::Runner 2.337.0 is the latest release.\n",
      err: "",
    });
  });

  test.each([
    ["one young newer release is a warning", { "2.336.0": 60, "2.337.0": 30, "2.338.0": 3 }, 0, "::warning"],
    ["one old newer release is a failure", { "2.336.0": 60, "2.337.0": 30, "2.338.0": 14 }, 1, "::error"],
    ["two newer releases are a failure", { "2.337.0": 30, "2.338.0": 3, "2.338.1": 1 }, 1, "::error"],
  ])("%s", async (_what, releases, code, level) => {
    const tags = { ...fresh.tags, "2.338.0": digest("c"), "2.338.1": digest("d") };
    const answer = await run({ tags, releases }).answer;
    expect(answer.code).toBe(code);
    expect(answer.out).toMatch(new RegExp(`^${level} title=Runner image::Runner 2\\.337\\.0 is behind 2\\.338\\.0`));
  });

  test("fails when it names no release of late", async () => {
    const answer = await run({ ...fresh, tags: { ...fresh.tags, latest: digest("f") } }).answer;
    expect(answer.code).toBe(1);
    expect(answer.out).toContain("names none of the last");
  });
});

describe("a pinned version", () => {
  const pin = (version: string, sum: string) => ["--version", version, "--digest", sum];

  test("is fine under the digest that the registry has for it", async () => {
    const { answer, asked } = run(fresh, pin("2.337.0", digest("b")));
    expect((await answer).code).toBe(0);
    expect(asked.some((url) => url.endsWith("/latest"))).toBe(false);
  });

  test.each([
    ["another digest", pin("2.337.0", digest("a")), "does not have the pinned digest"],
    ["a version that the registry lost", pin("2.336.0", digest("a")), "does not have the pinned digest"],
    ["a version that was never released", pin("2.999.0", digest("a")), "not a published stable release"],
  ])("%s fails", async (_what, args, hint) => {
    const tags = { latest: digest("b"), "2.337.0": digest("b"), "2.999.0": digest("a") };
    const answer = await run({ ...fresh, tags }, args).answer;
    expect(answer.code).toBe(1);
    expect(answer.out).toContain(hint);
  });
});

describe("no answer is not freshness", () => {
  test.each<[string, World, string]>([
    ["GitHub refuses", { ...fresh, releasesStatus: 403 }, "GitHub answered 403"],
    ["the registry is down", { ...fresh, registryStatus: 503 }, "manifest status 503"],
    ["the tag does not exist", { ...fresh, tags: {} }, "has no tag 'latest'"],
  ])("%s", async (_what, world, hint) => {
    const answer = await run(world).answer;
    expect(answer).toMatchObject({ code: 2, out: "" });
    expect(answer.err).toContain(hint);
  });

  test.each([[["--version", "2.337.0"]], [["--image", "no image"]], [["--max-lag-days", "soon"]]])(
    "%j is a wrong call",
    async (args) => {
      expect((await run(fresh, args).answer).code).toBe(2);
    },
  );
});
