/** A look-up that RunPod does not answer: the check must not hang on it, and nothing may be bought unseen (I7, I1). */
import { describe, expect, test } from "vitest";
import { checkView, unprovenVerdict } from "../../shared/lifecycle/check-view.ts";
import { outcomes } from "./events.ts";
import { MINUTE, pod, SECOND, STOP, T0 } from "./fixtures.ts";
import { planned } from "./lock-hold.ts";
import type { Story } from "./story.ts";

const QUEUE = { place: null, waiting: 0, holder: "r1", etaMs: null };

function silentFor(minutes: number): Story {
  const story = planned().reachCreate();
  story.answer(
    "create-pod",
    { kind: "ambiguous", why: "http-5xx", retryAfterMs: null, sentAt: T0, elapsedMs: 3 * SECOND },
    3 * SECOND,
  );
  const until = story.now + minutes * MINUTE;
  while (story.now < until) story.answer("look-up-pod", outcomes["look-up-pod"].unknown);
  return story;
}

describe("a look-up that RunPod does not answer", () => {
  test("is quiet for its wait and ten minutes, then the check concludes while the look-up goes on", () => {
    expect(unprovenVerdict(silentFor(12).request)).toBeNull();
    const story = silentFor(14);
    expect(checkView(story.request, QUEUE)).toMatchObject({ status: "completed", conclusion: "failure" });
    expect(story.asks).toBe("look-up-pod");
    expect(story.locks).not.toContain("release");
  });

  test("found late, the pod is removed and its request ends: nobody would see what it ran", () => {
    const story = silentFor(30);
    story.answer("look-up-pod", { kind: "listed", startedAt: story.now, complete: true, pods: [pod()] });
    expect(story.at).toBe("cleaning/record");
    story.remove();
    expect(story.verdict).toMatchObject({ kind: "infrastructure", reason: "provider-outage" });
    expect(story.ledger.map((op) => op.kind)).toEqual(["open", "close"]);
  });

  test("found to be none, nothing more is bought under the completed check", () => {
    const story = silentFor(30);
    for (let looks = 0; story.asks === "look-up-pod" && looks < 5; looks += 1)
      story.answer("look-up-pod", {
        kind: "listed",
        startedAt: Math.max(story.now, story.task?.dueAt ?? 0),
        complete: true,
        pods: [],
      });
    expect(story.at).toBe("cleaning/deregister-first");
    story.remove();
    expect(story.verdict.reason).toBe("provider-outage");
    expect(story.performed.filter((kind) => kind === "create-pod")).toHaveLength(1);
  });

  test("an earlier word to stop stays the verdict", () => {
    const story = silentFor(1);
    story.event({ kind: "stop", verdict: STOP, inFlight: true });
    const until = story.now + 20 * MINUTE;
    while (story.now < until) story.answer("look-up-pod", outcomes["look-up-pod"].unknown);
    expect(unprovenVerdict(story.request)).not.toBeNull();
    story.answer("look-up-pod", { kind: "listed", startedAt: story.now, complete: true, pods: [pod()] });
    story.remove();
    expect(story.verdict).toEqual(STOP);
  });
});
