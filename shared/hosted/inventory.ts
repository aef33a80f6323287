/**
 * Test inventories in the formats of the runners: nextest's list, JUnit XML, plain lists.
 *
 * An inventory is what the partition is checked against, so a reader never drops what it does not understand: a shape
 * it does not know is an error.
 */
import * as z from "zod";
import { err, ok, unreachable, type Result } from "../result.ts";
import { parseJUnit } from "./junit.ts";
import { NO_BINARY, type Inventory, type TestIdentity } from "./partition.ts";

export type InventoryFormat = "nextest" | "junit" | "plain";
export type InventoryError = { readonly reason: "unreadable-inventory"; readonly problem: string };

/** `cargo nextest list --message-format json`: suites by binary id, test cases by name. Other fields are ignored. */
const nextestList = z.object({
  "test-count": z.number().int().nonnegative(),
  "rust-suites": z.record(z.string(), z.object({ testcases: z.record(z.string(), z.unknown()) })),
});

export function readInventory(format: InventoryFormat, text: string): Result<Inventory, InventoryError> {
  switch (format) {
    case "nextest":
      return readNextest(text);
    case "junit":
      return readJUnitInventory(text);
    case "plain":
      return readPlain(text);
    default:
      return unreachable(format, "inventory format");
  }
}

/** JSON documents are nextest lists, XML is JUnit, everything else is a plain list. */
export function guessFormat(text: string): InventoryFormat {
  const start = text.replace(/^\uFEFF/u, "").trimStart();
  if (start.startsWith("{")) return "nextest";
  return start.startsWith("<") ? "junit" : "plain";
}

function readNextest(text: string): Result<Inventory, InventoryError> {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return unreadable("the nextest list is not JSON; make it with 'cargo nextest list --message-format json'");
  }
  const parsed = nextestList.safeParse(json);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const where = issue === undefined ? "" : ` (${issue.path.join(".") || "top level"}: ${issue.message})`;
    return unreadable(
      `this is not a nextest list${where}; make it with '--message-format json', not '--list-type binaries-only'`,
    );
  }
  const tests = Object.entries(parsed.data["rust-suites"]).flatMap(([binary, suite]) =>
    Object.keys(suite.testcases).map((test) => ({ binary, test })),
  );
  return ok({ tests, declaredCount: parsed.data["test-count"] });
}

/** The class name stands in for the binary; runners that write none (or an empty one) give the suite's name. */
function readJUnitInventory(text: string): Result<Inventory, InventoryError> {
  const report = parseJUnit(text);
  if (!report.ok) return unreadable(`the JUnit file cannot be read: ${report.error.problem}`);
  const tests = report.value.cases.map((one): TestIdentity => {
    const binary = [one.className, one.suite].find((name) => name !== null && name !== "") ?? NO_BINARY;
    return { binary, test: one.name };
  });
  return ok({ tests, declaredCount: null });
}

/** One test a line, either `test` or `binary<TAB>test`; empty lines and `#` lines are skipped. */
function readPlain(text: string): Result<Inventory, InventoryError> {
  const tests: TestIdentity[] = [];
  for (const [index, line] of text.split(/\r\n|\n|\r/).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const columns = line.split("\t");
    const [first = "", second] = columns;
    if (columns.length > 2 || first === "" || second === "")
      return unreadable(`line ${index + 1} of the list is neither a test nor a binary and a test with a tab between`);
    tests.push(second === undefined ? { binary: NO_BINARY, test: first } : { binary: first, test: second });
  }
  return ok({ tests, declaredCount: null });
}

function unreadable(problem: string): Result<never, InventoryError> {
  return err({ reason: "unreadable-inventory", problem });
}
