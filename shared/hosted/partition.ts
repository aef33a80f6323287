/**
 * The audited partition of a test inventory into lanes: which test runs where, exactly once.
 *
 * The table is a TSV of `lane<TAB>binary<TAB>test`. It is a record of an audit, not a set of patterns: a test that the
 * table does not name is unclassified and fails the check, whatever it is called, and a named test that the inventory
 * lost fails it as well. Only after the check may a filter be built, because the host lane is written as "not the rest".
 */
import { err, ok, type Result } from "../result.ts";

export const LANES = ["host", "gpu", "two-gpu", "compile-only", "benchmark", "external-tool"] as const;
export type TestLane = (typeof LANES)[number];

/** One test. `binary` is nextest's binary id; inventories without binaries use {@link NO_BINARY}. */
export interface TestIdentity {
  readonly binary: string;
  readonly test: string;
}

export interface ClassifiedTest extends TestIdentity {
  readonly lane: TestLane;
}

/** What the test runner says exists. `declaredCount` is its own total, where the format has one. */
export interface Inventory {
  readonly tests: readonly TestIdentity[];
  readonly declaredCount: number | null;
}

/** The binary column of inventories that only know test names (plain lists). */
export const NO_BINARY = "-";

export type TableError = { readonly reason: "bad-row"; readonly line: number; readonly problem: string };

export type PartitionError =
  | {
      readonly reason: "mismatch";
      readonly unclassified: readonly TestIdentity[];
      readonly absent: readonly TestIdentity[];
    }
  | { readonly reason: "repeated"; readonly repeated: readonly TestIdentity[] }
  | { readonly reason: "empty" }
  | { readonly reason: "count"; readonly declared: number; readonly listed: number };

export function isLane(text: string): text is TestLane {
  return (LANES as readonly string[]).includes(text);
}

/**
 * Reads the table. Empty lines and lines that begin with `#` are skipped; a wrong column count, an unknown lane, an
 * empty name or a test listed twice (in whichever lanes) is an error with its line number.
 */
export function readPartition(table: string): Result<readonly ClassifiedTest[], TableError> {
  const rows: ClassifiedTest[] = [];
  const seen = new Map<string, number>();
  for (const [index, text] of table.split(/\r\n|\n|\r/).entries()) {
    const line = index + 1;
    if (text === "" || text.startsWith("#")) continue;
    const columns = text.split("\t");
    const [lane, binary, test] = columns;
    const bad = (problem: string) => err<TableError>({ reason: "bad-row", line, problem });
    if (columns.length !== 3 || lane === undefined || binary === undefined || test === undefined)
      return bad(`a row has the three columns lane, binary and test, this one has ${columns.length}`);
    if (!isLane(lane)) return bad(`'${lane}' is not a lane (${LANES.join(", ")})`);
    if (binary.trim() === "" || test.trim() === "") return bad("the binary and the test need names");
    const earlier = seen.get(identityKey({ binary, test }));
    if (earlier !== undefined) return bad(`'${binary} ${test}' is already classified on line ${earlier}`);
    seen.set(identityKey({ binary, test }), line);
    rows.push({ lane, binary, test });
  }
  return ok(rows.sort(byIdentity));
}

/** Exhaustive and disjoint, both directions named in full, and the runner's own count agrees and is not zero. */
export function checkPartition(
  rows: readonly ClassifiedTest[],
  inventory: Inventory,
): Result<{ readonly tests: number }, PartitionError> {
  const classified = new Set(rows.map(identityKey));
  const listed = new Set(inventory.tests.map(identityKey));
  const unclassified = distinct(inventory.tests.filter((test) => !classified.has(identityKey(test))));
  const absent = rows.filter((row) => !listed.has(identityKey(row))).map(identityOf);
  if (unclassified.length > 0 || absent.length > 0)
    return err({ reason: "mismatch", unclassified: unclassified.sort(byIdentity), absent: absent.sort(byIdentity) });
  if (listed.size === 0) return err({ reason: "empty" });
  if (listed.size !== inventory.tests.length) {
    const once = new Set<string>();
    const repeated = inventory.tests.filter((test) => once.size === once.add(identityKey(test)).size);
    return err({ reason: "repeated", repeated: distinct(repeated).sort(byIdentity) });
  }
  if (inventory.declaredCount !== null && inventory.declaredCount !== listed.size)
    return err({ reason: "count", declared: inventory.declaredCount, listed: listed.size });
  return ok({ tests: listed.size });
}

/** The tests a lane selects, sorted by binary and test. */
export function testsOf(rows: readonly ClassifiedTest[], lane: TestLane): readonly TestIdentity[] {
  return rows
    .filter((row) => row.lane === lane)
    .map(identityOf)
    .sort(byIdentity);
}

/**
 * A nextest filterset for one lane. The host lane is the complement of all others, which keeps the argument short;
 * that is safe only for an inventory that {@link checkPartition} found exhaustive.
 */
export function nextestFilter(rows: readonly ClassifiedTest[], lane: TestLane): string {
  const selected = rows.filter((row) => (lane === "host" ? row.lane !== "host" : row.lane === lane)).sort(byIdentity);
  const tests = new Map<string, string[]>();
  for (const row of selected)
    tests.set(row.binary, [...(tests.get(row.binary) ?? []), `test(=${escapeMatcher(row.test)})`]);
  const terms = [...tests].map(([binary, names]) => `(${binaryPredicate(binary)} & (${names.join(" | ")}))`);
  const union = terms.length === 0 ? "none()" : terms.join(" | ");
  return lane === "host" ? `not (${union})` : union;
}

export interface PartitionReport {
  /** Tests per lane; lanes without tests are left out. */
  readonly counts: Readonly<Partial<Record<TestLane, number>>>;
  /** Every test of every lane that did not run: never to be read as passed. */
  readonly notRun: readonly ClassifiedTest[];
}

/** What the table holds, and what did not run when only the lanes in `ran` did. */
export function reportPartition(rows: readonly ClassifiedTest[], ran: readonly TestLane[]): PartitionReport {
  const counts: Partial<Record<TestLane, number>> = {};
  for (const row of rows) counts[row.lane] = (counts[row.lane] ?? 0) + 1;
  return { counts, notRun: rows.filter((row) => !ran.includes(row.lane)).sort(byIdentity) };
}

/**
 * `package::target` as nextest writes binary ids: the bare package is its library, whose binary is named with
 * underscores; `kind/name` targets (bin, bench, example) need the kind, since their binary's name lacks it.
 */
function binaryPredicate(binaryId: string): string {
  const at = binaryId.indexOf("::");
  const pkg = at === -1 ? binaryId : binaryId.slice(0, at);
  const target = at === -1 ? pkg.replaceAll("-", "_") : binaryId.slice(at + 2);
  const [, kind, name] = /^(bin|bench|example)\/(.+)$/.exec(target) ?? [];
  const kindTerm = kind === undefined ? "" : ` & kind(=${kind})`;
  return `package(=${escapeMatcher(pkg)}) & binary(=${escapeMatcher(name ?? target)})${kindTerm}`;
}

/** Characters that would end or change an `=` matcher in nextest's filterset grammar. */
function escapeMatcher(text: string): string {
  return text.replaceAll(/[\\),]/g, (character) => `\\${character}`);
}

function identityOf({ binary, test }: TestIdentity): TestIdentity {
  return { binary, test };
}

/** Names hold no tab: the table could not name them otherwise. */
function identityKey({ binary, test }: TestIdentity): string {
  return `${binary}\t${test}`;
}

function distinct(tests: readonly TestIdentity[]): TestIdentity[] {
  return [...new Map(tests.map((test) => [identityKey(test), identityOf(test)])).values()];
}

function byIdentity(a: TestIdentity, b: TestIdentity): number {
  return compare(a.binary, b.binary) || compare(a.test, b.test);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
