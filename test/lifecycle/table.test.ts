/**
 * docs/states.md is the transition table; each row is held against `decide`. A pair of situation and event without a row
 * fails, and so does a row that names a pair which does not exist.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { decide, eventKinds } from "../../shared/lifecycle/decide.ts";
import { requestSchema, stateKinds, teardownSchema, stateSchema } from "../../shared/lifecycle/model.ts";
import { onRepeat, taskSchema, type TaskKind } from "../../shared/lifecycle/tasks.ts";
import { coveredKinds, eventsOf, outcomes, said, situations, type Situation } from "./events.ts";
import { around } from "./fixtures.ts";

const DOCUMENT = readFileSync(join(import.meta.dirname, "../../docs/states.md"), "utf8");

interface Row {
  readonly event: string;
  readonly where: string;
  readonly cell: string;
}

/** The rows of the document: those of one state's own table, and those of the table for many states. */
function readTable(): { readonly own: readonly Row[]; readonly shared: readonly Row[] } {
  const own: Row[] = [];
  const shared: Row[] = [];
  let section = "";
  for (const line of DOCUMENT.split("\n")) {
    const heading = /^#{2,3} (.+)$/.exec(line)?.[1];
    if (heading !== undefined) section = heading;
    const cells = /^\| (.+) \|$/.exec(line)?.[1]?.split(" | ") ?? [];
    const [first = "", second = "", third = ""] = cells;
    if (first === "" || first === "Event" || first === "---") continue;
    if (cells.length === 3) shared.push({ event: first, where: second, cell: third });
    else own.push({ event: first, where: section, cell: second });
  }
  return { own, shared };
}

/** `all`, `waiting/*`, `queued, executing`, each with `but ...` behind it. */
function covers(pattern: string, name: string): boolean {
  const [included = "", excluded = ""] = pattern.split(" but ");
  const oneOf = (list: string) =>
    list
      .split(", ")
      .some((item) => item === "all" || item === name || (item.endsWith("/*") && name.startsWith(item.slice(0, -1))));
  return oneOf(included) && !(excluded !== "" && oneOf(excluded));
}

/** The removal's steps have one table for both places they happen in. */
function sectionOf(name: string): { readonly section: string; readonly place: string } {
  const removal = /^(provisioning\/teardown|cleaning)\/(?!judge)(.+)$/.exec(name);
  return removal === null
    ? { section: name, place: "" }
    : { section: `removal/${removal[2] ?? ""}`, place: `${removal[1] ?? ""}/` };
}

const table = readTable();

function expectedCell(one: Situation, event: string): string | null {
  const { section, place } = sectionOf(one.name);
  const own = table.own.filter((row) => row.where === section && row.event === event);
  const rows = own.length > 0 ? own : table.shared.filter((row) => row.event === event && covers(row.where, one.name));
  if (rows.length > 1) throw new Error(`${one.name} has ${rows.length} rows for "${event}"`);
  const cell = rows[0]?.cell ?? null;
  if (cell === null || place === "") return cell;
  const split = /^another attempt follows: (.+); none does: (.+)$/.exec(cell);
  const mine = split === null ? cell : ((place === "cleaning/" ? split[2] : split[1]) ?? "");
  return mine.replaceAll("removal/", place);
}

const pairs = situations.flatMap((one) => [...eventsOf(one)].map(([name, event]) => ({ one, name, event })));

describe("each row of docs/states.md", () => {
  test.each(pairs.map((pair) => [`${pair.one.name}, ${pair.name}`, pair] as const))("%s", (_, { one, name, event }) => {
    expect(said(decide(one.request, event, around()), one.request)).toBe(expectedCell(one, name) ?? "has no row");
  });
});

describe("the table is complete", () => {
  test("every state is a situation, with every step of it", () => {
    const names = new Set(situations.map((one) => one.name));
    const removal: readonly string[] = teardownSchema.shape.step.options;
    const wanted = stateSchema.options.flatMap(({ shape }) => {
      const kind = shape.kind.value;
      const steps: readonly string[] = "step" in shape ? shape.step.options : "for" in shape ? shape.for.options : [];
      if (kind === "cleaning") return [...removal, "judge"].map((step) => `cleaning/${step}`);
      const removing = steps.includes("teardown") ? removal.map((step) => `${kind}/teardown/${step}`) : [];
      const plain = steps.filter((step) => step !== "teardown").map((step) => `${kind}/${step}`);
      return steps.length === 0 ? [kind] : [...plain, ...removing];
    });
    expect([...names].sort()).toEqual(wanted.sort());
    expect(new Set(situations.map((one) => one.request.state.kind))).toEqual(new Set(stateKinds));
  });

  test("every situation meets every kind of event", () => {
    for (const one of situations)
      expect({ at: one.name, kinds: coveredKinds(eventsOf(one)) }).toEqual({ at: one.name, kinds: eventKinds });
  });

  test("every kind of task is under way somewhere", () => {
    const performed = new Set<string | null>(situations.map((one) => one.task));
    const kinds = Object.keys(onRepeat) as TaskKind[];
    expect(kinds.filter((kind) => !performed.has(kind))).toEqual([]);
    expect(taskSchema.options.map((option) => option.shape.kind.value).sort()).toEqual(kinds.sort());
  });

  test("every row speaks of a situation and an event that exist", () => {
    const known = new Set(pairs.map(({ one, name }) => `${sectionOf(one.name).section}, ${name}`));
    const stale = table.own.filter((row) => !known.has(`${row.where}, ${row.event}`));
    const idle = table.shared.filter(
      (row) => !pairs.some(({ one, name }) => name === row.event && covers(row.where, one.name)),
    );
    expect([...stale, ...idle]).toEqual([]);
  });
});

describe("what a decision leaves behind", () => {
  test("can be stored: every state it leads to parses as it was written", () => {
    for (const { one, event } of pairs) {
      const after = decide(one.request, event, around()).request;
      expect(requestSchema.parse(JSON.parse(JSON.stringify(after)))).toEqual(JSON.parse(JSON.stringify(after)));
    }
  });

  test("is never a request without a task that has not concluded", () => {
    for (const { one, name, event } of pairs) {
      if (event.kind !== "done" || event.taskId !== 1) continue;
      const step = decide(one.request, event, around());
      const alive = step.request.state.kind === "concluded" || step.task !== null;
      expect({ at: `${one.name}, ${name}`, alive }).toEqual({ at: `${one.name}, ${name}`, alive: true });
    }
  });

  test("a task that may not be performed twice has an outcome for the lost answer", () => {
    const lost = Object.entries(onRepeat).filter(([, word]) => word === "lost");
    for (const [kind] of lost) {
      const words: readonly string[] = Object.keys(outcomes[kind as keyof typeof outcomes]);
      expect({ kind, told: words.includes("lost") || words.includes("ambiguous") }).toEqual({ kind, told: true });
    }
  });
});
