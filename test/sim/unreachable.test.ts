/** What a run of the simulator never reached is said in sentences that need no key. */
import { describe, expect, test } from "vitest";
import { Coverage, namesToMeet } from "../../sim/coverage.ts";
import { UNREACHABLE, unreached, unreachedLines } from "../../sim/unreachable.ts";

const full = {
  unreached: () =>
    Object.fromEntries(Object.keys(namesToMeet).map((kind) => [kind, Object.keys(UNREACHABLE[kind] ?? {})])),
};

describe("what was never reached", () => {
  test("is a sentence for each kind, and none is missing where all was", () => {
    const lines = unreachedLines(full, namesToMeet);
    expect(lines).toHaveLength(6);
    for (const line of lines)
      expect(line).toMatch(/^Every [a-z ]+ was [a-z]+(?: \(but the \d that sim\/unreachable\.ts excuses\))?\.$/);
  });

  test("is counted without what cannot be reached, and named", () => {
    const lines = unreachedLines({ unreached: () => ({ ...full.unreached(), tasks: ["sleep"] }) }, namesToMeet);
    expect(lines[2]).toBe(`Of ${namesToMeet["tasks"]} kinds of task, 1 was never put: sleep.`);
    expect(lines.at(-1)).toBe("Some hundred seeds reach nearly all of it.");
  });

  test("of a run in which nothing was met is everything but what cannot be", () => {
    const { missing } = unreached(new Coverage());
    for (const [kind, names] of Object.entries(missing)) {
      expect(names).toHaveLength((namesToMeet[kind] ?? 0) - Object.keys(UNREACHABLE[kind] ?? {}).length);
    }
    expect(unreachedLines(new Coverage(), namesToMeet)[3]).toMatch(/^Of (\d+) reasons .* \1 were never given: /);
  });

  test("says where the list of what cannot be reached is wrong", () => {
    const lines = unreachedLines({ unreached: () => ({ ...full.unreached(), reasons: [] }) }, namesToMeet);
    expect(lines.at(-1)).toMatch(/^Reached, though sim\/unreachable\.ts says that it cannot be: .*read-only/);
  });
});
