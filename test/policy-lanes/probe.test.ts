import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  asciiLower,
  decideProbe,
  describeSeen,
  judgeRunners,
  type ProbeInput,
  type RunnerListing,
} from "../../shared/policy/probe.ts";

const LABELS = ["self-hosted", "linux", "gpu-full"];

function runner(labels: readonly string[], status = "online", id = 1) {
  return { id, name: `r${id}`, status, busy: false, labels: labels.map((name) => ({ name })) };
}

function pages(...runners: unknown[]): RunnerListing {
  return { kind: "pages", pages: [{ total_count: runners.length, runners }] };
}

function on(listing: RunnerListing, more: Partial<ProbeInput> = {}) {
  return decideProbe({ switchValue: "true", requiredLabels: LABELS, listing, ...more });
}

describe("the switch", () => {
  it.each([[null], [""], ["false"], ["True"], ["TRUE"], [" true"], ["true "], ["true\n"], ["1"], ["yes"]])(
    "%j is off: a clean skip, even when the API would have failed",
    (switchValue) => {
      const verdict = on({ kind: "failure", what: "403" }, { switchValue });
      expect(verdict).toMatchObject({ enabled: false, available: false, fail: false, reason: "disabled" });
    },
  );

  it("exactly true is on", () => {
    expect(on(pages(runner(LABELS)))).toMatchObject({ enabled: true, available: true, registered: true, fail: false });
  });

  it("on without a label set fails loudly and needs no answer from GitHub", () => {
    for (const requiredLabels of [[], "", " , ", ["", " "]]) {
      const verdict = decideProbe({ switchValue: "true", requiredLabels, listing: null });
      expect(verdict).toMatchObject({ enabled: true, available: false, fail: true, reason: "empty-label-set" });
    }
  });

  it("on without any listing is a failure, not a skip", () => {
    const verdict = decideProbe({ switchValue: "true", requiredLabels: LABELS, listing: null });
    expect(verdict).toMatchObject({ fail: true, reason: "api-error" });
  });
});

describe("the match", () => {
  it("N137: the 101st runner counts like the first", () => {
    const crowd = Array.from({ length: 100 }, (_, index) => runner(["self-hosted", "linux"], "online", index + 2));
    const listing = { kind: "pages", pages: [{ runners: crowd }, { runners: [runner(LABELS)] }] } as const;
    expect(on(listing).available).toBe(true);
  });

  it("labels never add up across runners", () => {
    const verdict = on(pages(runner(["self-hosted", "linux"], "online", 1), runner(["gpu-full"], "online", 2)));
    expect(verdict).toMatchObject({ available: false, registered: false, fail: true, reason: "no-complete-match" });
    expect(verdict.seen.nearest[0]).toEqual({ name: "r1", status: "online", missing: ["gpu-full"] });
  });

  it("names are whole and compared without ASCII case", () => {
    expect(on(pages(runner(["Self-Hosted", "LINUX", "Gpu-Full", "x64"]))).available).toBe(true);
    expect(on(pages(runner(["self-hosted", "linux", "gpu-fullx"]))).available).toBe(false);
    expect(on(pages(runner(["self-hosted", "linux", "gpu"]))).available).toBe(false);
  });

  it("the Kelvin sign is no k and the long s is no s", () => {
    expect("\u212A".toLowerCase()).toBe("k");
    expect(asciiLower("\u212A")).not.toBe("k");
    const verdict = decideProbe({
      switchValue: "true",
      requiredLabels: ["k"],
      listing: pages(runner(["\u212A"])),
    });
    expect(verdict.reason).toBe("no-complete-match");
  });

  it("only status online is online; busy is not looked at", () => {
    expect(on(pages({ ...runner(LABELS), busy: true })).available).toBe(true);
    for (const status of ["offline", "Online", "idle", "", null, undefined]) {
      const verdict = on(pages({ ...runner(LABELS), status }));
      expect(verdict).toMatchObject({ available: false, registered: true, fail: true, reason: "offline" });
    }
  });

  it("N67: a rented machine that has not proven its GPU is no capacity", () => {
    const listing = pages(runner(LABELS, "online", 7));
    expect(on(listing, { unprovenRunnerIds: new Set(["7"]) }).reason).toBe("no-complete-match");
    expect(on(listing, { unprovenRunnerIds: new Set(["8"]) }).available).toBe(true);
  });

  it("N67: a rented machine is told by the gate's own label where nobody knows its id", () => {
    const rented = runner([...LABELS, "gpu-gate-5f1c0d9e8b7a695847362514"]);
    expect(on(pages(rented)).reason).toBe("no-complete-match");
    expect(on(pages(rented, runner(LABELS, "online", 2))).available).toBe(true);
    expect(on(pages(runner([...LABELS, "gpu-gate-desk"]))).available).toBe(true);
  });
});

describe("an answer that cannot be read", () => {
  it.each([
    ["text that is no JSON", "<html>"],
    ["a list", []],
    ["no runners", { total_count: 1 }],
    ["runners that are no list", { runners: {} }],
    ["a runner without labels", { runners: [{ id: 1, status: "online" }] }],
    ["a label without a name", { runners: [{ id: 1, status: "online", labels: [{ id: 3 }] }] }],
    ["a null runner", { runners: [null] }],
  ])("%s is a loud failure, also beside a good match", (_, page) => {
    const listing = { kind: "pages", pages: [{ runners: [runner(LABELS)] }, page] } as const;
    expect(on(listing)).toMatchObject({ available: false, fail: true, reason: "invalid-response" });
  });

  it("no page at all is not an empty list", () => {
    expect(on({ kind: "pages", pages: [] }).reason).toBe("invalid-response");
  });

  it("a list that kept changing proves a match, but not the lack of one", () => {
    const incomplete = "the list kept changing";
    const matching = judgeRunners(LABELS, { kind: "pages", pages: [{ runners: [runner(LABELS)] }], incomplete });
    expect(matching.available).toBe(true);
    const lacking = judgeRunners(LABELS, { kind: "pages", pages: [{ runners: [] }], incomplete });
    expect(lacking).toMatchObject({ fail: true, reason: "api-error" });
  });
});

it("what was seen fits on one line, whatever a runner is called", () => {
  const verdict = on(pages({ ...runner(["self-hosted"]), name: "a\n::error::b\u0007" }));
  expect(describeSeen(verdict.seen)).toMatch(/^1 runners, none with every label; nearest: a ::error::b +lacks/u);
  expect(describeSeen(verdict.seen)).not.toMatch(/\p{Cc}/u);
});

it("is available exactly when one runner is online and carries every label, for any crowd", () => {
  const label = fc.constantFrom("self-hosted", "Linux", "gpu-full", "GPU-FULL", "x64");
  const anyRunner = fc.record({
    id: fc.integer({ min: 1, max: 9 }),
    name: fc.string(),
    status: fc.constantFrom("online", "offline"),
    labels: fc.array(fc.record({ name: label })),
  });
  fc.assert(
    fc.property(fc.array(anyRunner, { maxLength: 8 }), fc.integer({ min: 1, max: 3 }), (runners, size) => {
      const chunks = Array.from({ length: Math.max(1, Math.ceil(runners.length / size)) }, (_, page) => ({
        runners: runners.slice(page * size, (page + 1) * size),
      }));
      const complete = runners.filter(({ labels }) =>
        LABELS.every((wanted) => labels.some(({ name }) => name.toLowerCase() === wanted)),
      );
      const verdict = on({ kind: "pages", pages: chunks });
      expect(verdict.available).toBe(complete.some(({ status }) => status === "online"));
      expect(verdict.registered).toBe(complete.length > 0);
      expect(verdict.fail).toBe(!verdict.available);
    }),
  );
});
