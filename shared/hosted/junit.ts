/**
 * A small reader of JUnit XML, enough for inventories and evidence: suites, cases, their outcome and times.
 *
 * JUnit files are written by test runners and are read as untrusted text: document types and processing tricks are
 * refused, unknown elements are passed over, and anything unbalanced is an error rather than a shorter list.
 */
import { err, ok, type Result } from "../result.ts";

export type JUnitOutcome = "passed" | "failed" | "skipped";

export interface JUnitCase {
  readonly suite: string;
  /** Null where the runner writes none. */
  readonly className: string | null;
  readonly name: string;
  readonly outcome: JUnitOutcome;
  readonly seconds: number | null;
}

export interface JUnitReport {
  readonly cases: readonly JUnitCase[];
  /** The outermost total where the file states one, else the sum of its parts, else null. */
  readonly seconds: number | null;
}

export type JUnitError = { readonly reason: "malformed"; readonly problem: string };

const TOKEN = /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<\?[\s\S]*?\?>|<(?:[^<>"']|"[^"]*"|'[^']*')*>|[^<]+|</gu;
const ATTRIBUTE = /([A-Za-z_:][\w:.-]*)\s*=\s*(?:"([^"]*)"|'([^']*)')/gu;
const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

interface OpenElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  outcome: JUnitOutcome;
}

/** Reads a whole JUnit document. */
export function parseJUnit(xml: string): Result<JUnitReport, JUnitError> {
  const malformed = (problem: string) => err<JUnitError>({ reason: "malformed", problem });
  const open: OpenElement[] = [];
  const cases: JUnitCase[] = [];
  const totals: { depth: number; seconds: number }[] = [];
  let sawRoot = false;
  for (const [token] of xml.matchAll(TOKEN)) {
    if (token.startsWith("<!--") || token.startsWith("<?") || token.startsWith("<![CDATA[")) continue;
    if (!token.startsWith("<")) {
      if (open.length === 0 && token.replace("\uFEFF", "").trim() !== "")
        return malformed("there is text outside of the root element");
      continue;
    }
    if (token.startsWith("<!")) return malformed("document types are not accepted");
    const name = /^<\/?([A-Za-z_:][\w:.-]*)/u.exec(token)?.[1];
    if (name === undefined || !token.endsWith(">")) return malformed(`'${token.slice(0, 40)}' is not a tag`);
    if (!token.startsWith("</")) {
      if (open.length === 0) {
        if (sawRoot) return malformed("there is more than one root element");
        if (name !== "testsuites" && name !== "testsuite")
          return malformed(`the root element is <${name}>, not <testsuites> or <testsuite>`);
        sawRoot = true;
      }
      const element: OpenElement = { name, attributes: attributesOf(token), outcome: "passed" };
      const parent = open.at(-1);
      if (parent?.name === "testcase") {
        if (name === "failure" || name === "error") parent.outcome = "failed";
        else if (name === "skipped" && parent.outcome === "passed") parent.outcome = "skipped";
      }
      open.push(element);
      if (!token.endsWith("/>")) continue;
    }
    const closed = open.pop();
    if (closed?.name !== name) return malformed(`</${name}> closes <${closed?.name ?? "nothing"}>`);
    const seconds = secondsOf(closed.attributes.get("time"));
    if (closed.name === "testcase") {
      const caseName = closed.attributes.get("name");
      if (caseName === undefined) return malformed("a <testcase> has no name");
      const suite = open.findLast((element) => element.name === "testsuite")?.attributes.get("name") ?? "";
      cases.push({
        suite,
        className: closed.attributes.get("classname") ?? null,
        name: caseName,
        outcome: closed.outcome,
        seconds,
      });
    }
    if ((closed.name === "testsuite" || closed.name === "testsuites") && seconds !== null)
      totals.push({ depth: open.length, seconds });
  }
  if (open.length > 0) return malformed(`<${open.at(-1)?.name ?? ""}> is never closed`);
  if (!sawRoot) return malformed("the document is empty");
  return ok({ cases, seconds: totalSeconds(totals, cases) });
}

function totalSeconds(
  totals: readonly { depth: number; seconds: number }[],
  cases: readonly JUnitCase[],
): number | null {
  const outermost = Math.min(...totals.map((total) => total.depth));
  if (totals.length > 0)
    return totals.filter((total) => total.depth === outermost).reduce((sum, total) => sum + total.seconds, 0);
  const timed = cases.flatMap((one) => (one.seconds === null ? [] : [one.seconds]));
  return timed.length === 0 ? null : timed.reduce((sum, seconds) => sum + seconds, 0);
}

function attributesOf(tag: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [, name, double, single] of tag.matchAll(ATTRIBUTE))
    if (name !== undefined) found.set(name, decodeEntities(double ?? single ?? ""));
  return found;
}

function decodeEntities(text: string): string {
  return text.replaceAll(
    /&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z]+));/giu,
    (whole, hex?: string, decimal?: string, named?: string) => {
      if (named !== undefined) return ENTITIES[named] ?? whole;
      const point = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
      return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
    },
  );
}

/** JUnit times are decimal seconds; some runners group thousands with commas. Anything else is unknown. */
function secondsOf(text: string | undefined): number | null {
  if (text === undefined || !/^\d[\d,]*(?:\.\d+)?$|^\.\d+$/u.test(text)) return null;
  return Number(text.replaceAll(",", ""));
}
