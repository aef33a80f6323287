/** The runner's age: told in time, never in the way. */
import { describe, expect, it } from "vitest";
import type { GatePorts } from "../../durable-objects/gate/ports.ts";
import { runnerNote, watchRelease } from "../../durable-objects/gate/release-watch.ts";
import { migrate } from "../../durable-objects/gate/schema.ts";
import { Store } from "../../durable-objects/gate/store.ts";
import { configFrom } from "../../shared/config/load.ts";
import { nodeSql } from "../support/node-sql.ts";

const DAY = 86_400_000;
const T0 = Date.UTC(2026, 10, 30);

const release = (version: string, daysAgo: number) => ({
  tag_name: `v${version}`,
  published_at: new Date(T0 - daysAgo * DAY).toISOString(),
  draft: false,
  prerelease: false,
});

function watch(options: {
  readonly latest: string;
  readonly releases?: readonly unknown[] | null;
  readonly image?: string;
}) {
  const sql = nodeSql();
  migrate(sql);
  const store = new Store(sql);
  store.rememberRepository({ id: "101", owner: "acme", name: "tensors" }, "7");
  const config = configFrom();
  const image = options.image ?? config.gpu.image;
  store.rememberConfig("c", { ...config, gpu: { ...config.gpu, image } });
  store.setMeta("last_config", "c");
  const clock = { at: T0 };
  const asked = { listings: 0 };
  const digest = (version: string) => `ghcr.io/actions/actions-runner@sha256:${version}`;
  const ports = {
    clock: { now: () => clock.at },
    runnerReleases: () => {
      asked.listings += 1;
      const value = options.releases === undefined ? [release("2.331.0", 3), release("2.330.0", 30)] : options.releases;
      return Promise.resolve(value === null ? { ok: false, why: "404" } : { ok: true, value });
    },
    resolveImage: (name: string) =>
      Promise.resolve({ ok: true, value: digest(name.replace(/^.*:/, "").replace("latest", options.latest)) }),
  } as unknown as GatePorts;
  return { store, clock, asked, look: () => watchRelease(ports, store) };
}

describe("the runner's release", () => {
  it("says nothing while the newest one is in use", async () => {
    const { store, look } = watch({ latest: "2.331.0" });
    await look();
    expect(runnerNote(store)).toBeNull();
  });

  it("names the newer one weeks before GitHub refuses the old one", async () => {
    const { store, look } = watch({ latest: "2.330.0" });
    await look();
    expect(runnerNote(store)).toBe("2.330.0; newer: 2.331.0.");
  });

  it("is urgent when the newer one has been out for longer than the configured days", async () => {
    const releases = [release("2.331.0", 14), release("2.330.0", 50)];
    const { store, look } = watch({ latest: "2.330.0", releases });
    await look();
    expect(runnerNote(store)).toMatch(/^2\.330\.0; newer: 2\.331\.0\. GitHub refuses runners about 30 days behind/);
  });

  it("that is none of the newest is told as such", async () => {
    const { store, look } = watch({ latest: "2.300.0" });
    await look();
    expect(runnerNote(store)).toMatch(/^older than the newest 2 releases/);
  });

  it("is looked at a few times a day, and an hour after a failure", async () => {
    const good = watch({ latest: "2.331.0" });
    const bad = watch({ latest: "2.331.0", releases: null });
    for (const one of [good, bad]) {
      await one.look();
      await one.look();
      one.clock.at += 3_600_000;
      await one.look();
    }
    expect([good.asked.listings, bad.asked.listings]).toEqual([1, 2]);
    expect(runnerNote(bad.store)).toBeNull();
    good.clock.at += 5 * 3_600_000;
    await good.look();
    expect(good.asked.listings).toBe(2);
  });

  it("of somebody's own image is nobody's business", async () => {
    const { store, look } = watch({ latest: "1", image: "registry.test/acme/runner:1" });
    await look();
    expect(runnerNote(store)).toBeNull();
  });
});
