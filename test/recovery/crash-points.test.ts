/** The crash matrix is complete: no kind of task may join the gate without being killed before and after its call. */
import { describe, expect, it } from "vitest";
import { onRepeat, taskSchema } from "../../shared/lifecycle/tasks.ts";
import { allPoints, TASK_POINTS } from "../long/crash-points.ts";

describe("the crash matrix", () => {
  const kinds = taskSchema.options.map((option) => option.shape.kind.value);

  it("has a point before and a point after every kind of task of the union", () => {
    expect(Object.keys(TASK_POINTS).toSorted()).toEqual([...kinds].toSorted());
    expect(Object.keys(onRepeat).toSorted()).toEqual([...kinds].toSorted());
    for (const kind of kinds) {
      const sides = allPoints().filter((one) => one.name === kind);
      expect(sides.map((one) => one.side)).toEqual(["before", "after"]);
    }
  });

  it("kills in the lanes beside the main one as well", () => {
    const lanes = new Set(allPoints().flatMap((one) => (one.name.startsWith("lane ") ? [one.name.slice(5)] : [])));
    expect([...lanes].toSorted()).toEqual(["aggregate", "check", "cost", "deadline", "reconcile", "rerun", "stray"]);
  });

  it("kills at a call only: before it is passed on, or after it was answered", () => {
    for (const { point } of allPoints()) {
      const same = point.before.match === point.after.match;
      expect([point.before.when, point.after.when]).toEqual(same ? ["before", "after"] : ["after", "before"]);
    }
  });
});
