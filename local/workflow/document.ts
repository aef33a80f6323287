/** YAML text to plain values, with a way to find the place of any value again. */
import { isMap, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";
import { err, ok, type Result } from "../../shared/result.ts";
import type { WorkflowProblem } from "./model.ts";

export type Path = readonly PropertyKey[];

export interface SourceDocument {
  readonly file: string;
  readonly value: unknown;
  /** Place of the value at a path, or of the nearest parent that is written. */
  readonly placeOf: (path: Path) => Place;
  /** Place of the key itself. */
  readonly keyPlaceOf: (path: Path) => Place;
}

export interface Place {
  readonly line: number;
  readonly column: number;
}

const MAX_ALIASES = 100;

export function readDocument(text: string, file: string): Result<SourceDocument, readonly WorkflowProblem[]> {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, prettyErrors: false });
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) {
    return err(
      faults.map((fault) => ({
        file,
        ...placeAt(lines, fault.pos[0]),
        message: `not readable as YAML: ${fault.message}`,
      })),
    );
  }
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (problem) {
    return err([{ file, line: 1, column: 1, message: `its aliases cannot be resolved: ${String(problem)}` }]);
  }
  return ok({
    file,
    value,
    placeOf: (path) => placeAt(lines, offsetOf(document, path)),
    keyPlaceOf: (path) => placeAt(lines, keyOffset(document, path) ?? offsetOf(document, path)),
  });
}

function placeAt(lines: LineCounter, offset: number): Place {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(1, line), column: Math.max(1, col) };
}

function offsetOf(document: Document, path: Path): number {
  for (let length = path.length; length > 0; length -= 1) {
    const node = document.getIn(path.slice(0, length), true) as Node | undefined;
    if (node?.range) return node.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function keyOffset(document: Document, path: Path): number | undefined {
  const parent: unknown = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return undefined;
  const pair = parent.items.find(
    (item) => isScalar(item.key) && String(item.key.source ?? item.key.value) === String(path.at(-1)),
  );
  return isScalar(pair?.key) ? pair.key.range?.[0] : undefined;
}

/**
 * The events that a file names under `on`, read as loosely as can be: which events a file that is not understood would
 * have been started by. Null where the text cannot be read so far.
 */
export function namedTriggers(text: string): readonly string[] | null {
  const document = parseDocument(text, { uniqueKeys: false });
  const on: unknown =
    document.errors.length === 0 && isMap(document.contents) ? document.contents.get("on") : undefined;
  if (isMap(on)) return on.items.map((item) => String(isScalar(item.key) ? item.key.value : item.key));
  if (isSeq(on)) return on.items.map((item) => String(isScalar(item) ? item.value : item));
  return typeof on === "string" ? [on] : null;
}
