import { describe, expect, it } from "vitest";
import { evaluate, type Context, type Value } from "../../local/workflow/evaluate.ts";
import { parseTemplate, render, renderValue } from "../../local/workflow/template.ts";

const context: Context = {
  values: {
    inputs: { name: "Ada", flag: true, count: 3, empty: "" },
    github: { ref: "refs/heads/main", event: { pull_request: { title: "x", labels: ["GPU", "docs"] } } },
    needs: { build: { result: "success", outputs: { sha: "abc" } } },
    matrix: { payload: "cuda12.8" },
  },
  status: { success: true, failure: false, cancelled: false },
};

function valueOf(text: string, status = context.status): Value | string {
  const value = evaluate(text, { ...context, status });
  return value.ok ? value.value : `${value.error.reason}: ${value.error.message}`;
}

describe("values and operators", () => {
  it.each<[string, Value]>([
    ["null", null],
    ["true", true],
    ["0x10", 16],
    ["-1.5e1", -15],
    ["'it''s'", "it's"],
    ["''", ""],
    // Properties: without case, missing is null, through an index, on nothing.
    ["inputs.name", "Ada"],
    ["INPUTS.Name", "Ada"],
    ["inputs.missing", null],
    ["inputs.missing.deeper", null],
    ["github.event.pull_request.labels[1]", "docs"],
    ["github.event.pull_request.labels[9]", null],
    ["needs['build'].outputs['sha']", "abc"],
    ["github.event[format('pull_{0}', 'request')].title", "x"],
    // Comparison through numbers; strings without case.
    ["'Main' == 'main'", true],
    ["1 == '1'", true],
    ["null == 0", true],
    ["null == ''", true],
    ["true == 'true'", false],
    ["true == 1", true],
    ["'a' == 0", false],
    ["inputs.missing != 'x'", true],
    ["'b' > 'A'", true],
    ["'10' > 9", true],
    ["'x' > 9", false],
    ["2 <= 2 && 3 >= 4", false],
    // The operands come through, as in a choice between two images.
    ["inputs.empty || 'fallback'", "fallback"],
    ["inputs.flag && 'macos-15' || 'ubuntu-24.04'", "macos-15"],
    ["!inputs.flag && 'macos-15' || 'ubuntu-24.04'", "ubuntu-24.04"],
    ["0 || false || null", null],
    // Precedence.
    ["true || false && false", true],
    ["(true || false) && false", false],
    ["!true == false", true],
    ["1 < 2 == true", true],
  ])("%s", (text, value) => {
    expect(valueOf(text)).toEqual(value);
  });

  it("an object equals only itself", () => {
    expect(valueOf("needs.build == needs.build")).toBe(true);
    expect(valueOf("fromJSON('[1]') == fromJSON('[1]')")).toBe(false);
  });
});

describe("functions", () => {
  it.each<[string, Value]>([
    ["contains('Hello', 'ELL')", true],
    ["contains(github.event.pull_request.labels, 'gpu')", true],
    ["contains(github.event.pull_request.labels, 'gp')", false],
    ["startsWith(github.ref, 'REFS/heads/')", true],
    ["endsWith(github.ref, '/main')", true],
    ["format('{0}-{1}-{0}', 'a', 2)", "a-2-a"],
    ["format('{{{0}}}', true)", "{true}"],
    ["join(github.event.pull_request.labels, '+')", "GPU+docs"],
    ["join(github.event.pull_request.labels)", "GPU,docs"],
    ["fromJSON('{\"a\": [1, 2]}').a[1]", 2],
    ["fromJSON(inputs.empty || '{}').common", null],
    ["toJSON(fromJSON('{\"a\":1}'))", '{\n  "a": 1\n}'],
    ["ToJson('x')", '"x"'],
  ])("%s", (text, value) => {
    expect(valueOf(text)).toEqual(value);
  });

  it.each([
    ["going well", { success: true, failure: false, cancelled: false }, [true, false, false, true]],
    ["failed", { success: false, failure: true, cancelled: false }, [false, true, false, true]],
    ["cancelled", { success: false, failure: false, cancelled: true }, [false, false, true, true]],
  ])("status functions when things are %s", (_what, status, expected) => {
    expect(["success()", "failure()", "cancelled()", "always()"].map((text) => valueOf(text, status))).toEqual(
      expected,
    );
  });
});

describe("what is refused", () => {
  it.each([
    ["hashFiles('**/Cargo.lock')", "syntax: the function 'hashFiles' is not supported"],
    ["strategy.job-index", "syntax: there is no context 'strategy' here"],
    ["inputs.*.name", "syntax: object filters (.*) are not supported"],
    ["inputs[*]", "syntax: object filters ([*]) are not supported"],
    ["contains('a')", "syntax: 'contains' takes 2 arguments, not 1"],
    ["success(1)", "syntax: 'success' takes 0 arguments, not 1"],
    ["", "syntax: the expression ends too early"],
    ["inputs.", "syntax: a property name is missing"],
    ["(1", "syntax: ')' is missing"],
    ["1 2", "syntax: '2' is not expected here"],
    ["'open", "syntax: ''' is not expected here"],
    ["a & b", "syntax: '&' is not expected here"],
    [`${"(".repeat(60)}1${")".repeat(60)}`, "syntax: the expression nests too deeply"],
    ["1 + 1", "syntax: '+' is not expected here"],
    ["fromJSON('{')", "value: fromJSON: '{' is not JSON"],
    ["format('{1}', 'a')", "value: format: '{1}' has a '{1}' without an argument"],
  ])("%s", (text, message) => {
    expect(valueOf(text)).toBe(message);
  });
});

describe("templates", () => {
  const rendered = (source: string): string => {
    const template = parseTemplate(source);
    if (!template.ok) return `${template.error.message} at ${template.error.offset}`;
    const text = render(template.value, context);
    return text.ok ? text.value : text.error.message;
  };

  it.each([
    ["plain", "plain"],
    ["a ${{ inputs.name }} b ${{ inputs.count }}", "a Ada b 3"],
    ["${{ 'a }} b' }}", "a }} b"],
    ["${{ inputs.missing }}", ""],
    ["${{ needs.build }}", "Object"],
    ["$HOME {{ }} ${x}", "$HOME {{ }} ${x}"],
    ["a ${{ inputs.name", "'${{' is never closed at 2"],
    ["ab ${{ nope }}", "there is no context 'nope' here at 7"],
  ])("%s", (source, text) => {
    expect(rendered(source)).toBe(text);
  });

  it("a single expression keeps its type", () => {
    const template = parseTemplate("${{ inputs.flag }}");
    expect(template.ok && renderValue(template.value, context)).toEqual({ ok: true, value: true });
  });
});
