/** The ways between states are those of docs/states.md, and a run's own are named as that page names them. */
import { describe, expect, test } from "vitest";
import { stateKinds } from "../../shared/lifecycle/model.ts";
import { Coverage } from "../../sim/coverage.ts";
import { WAYS, waysOf } from "../../sim/ways.ts";

describe("the ways of the page", () => {
  test("begin and end at states that there are, and touch each of them", () => {
    const ends = WAYS.flatMap((way) => way.split(" -> "));
    const kinds = new Set(ends.map((end) => end.split("/")[0] ?? ""));
    expect([...kinds].toSorted()).toEqual(stateKinds.toSorted());
    expect(WAYS.length).toBeGreaterThan(60);
  });

  test("are told from a state's own table, from the one for many, and from the removal's in both places", () => {
    const page = [
      "## Many",
      "| Event | In | What happens |",
      "| --- | --- | --- |",
      "| stop | all but b/* | **ends**: cancelled, x |",
      "### a",
      "| go | b/one: observe at once |",
      "| stay | a: observe in 1 s |",
      "| late | ignored: no |",
      "### b/one",
      "| go | noted |",
      "### removal/record",
      "| read | removal/delete: delete-pod at once |",
      "### removal/settle",
      "| settled | another attempt follows: a: observe at once; none does: **ends**: x, y |",
    ].join("\n");
    expect(waysOf(page)).toEqual([
      "a -> b/one",
      "a -> concluded",
      "cleaning/record -> cleaning/delete",
      "cleaning/record -> concluded",
      "cleaning/settle -> concluded",
      "provisioning/teardown/record -> concluded",
      "provisioning/teardown/record -> provisioning/teardown/delete",
      "provisioning/teardown/settle -> a",
      "provisioning/teardown/settle -> concluded",
    ]);
  });
});

describe("a run's ways", () => {
  const save = (coverage: Coverage, state: object): void => {
    const { kind } = state as { kind: string };
    const bindings = ["r1", null, null, null, null, kind, null, null, null, JSON.stringify({ id: "r1", state })];
    coverage.wrote("101", "INSERT INTO requests", bindings);
  };

  test("are told whatever the order of a record's keys is", () => {
    const coverage = new Coverage();
    save(coverage, { kind: "queued" });
    save(coverage, { hold: { fence: 1 }, kind: "revalidating", step: "plan" });
    save(coverage, { kind: "provisioning", step: "create", teardown: null });
    save(coverage, { kind: "provisioning", step: "teardown", teardown: { tries: 0, step: "record" } });
    save(coverage, { teardown: { step: "record" }, kind: "cleaning", step: "remove" });
    save(coverage, { kind: "cleaning", step: "judge", teardown: { step: "cancel" } });
    expect([...coverage.transitions.keys()]).toEqual([
      "(none) -> queued",
      "queued -> revalidating/plan",
      "revalidating/plan -> provisioning/create",
      "provisioning/create -> provisioning/teardown/record",
      "provisioning/teardown/record -> cleaning/record",
      "cleaning/record -> cleaning/judge",
    ]);
  });

  test("are missed by name where they were not taken", () => {
    const coverage = new Coverage();
    expect(coverage.unreached()["transitions"]).toEqual(WAYS);
    save(coverage, { kind: "received" });
    save(coverage, { kind: "authorizing" });
    expect(coverage.unreached()["transitions"]).not.toContain("received -> authorizing");
  });
});
