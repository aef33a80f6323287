import { describe, expect, it } from "vitest";
import type { GateView } from "../../durable-objects/gate/view.ts";
import { ok } from "../../shared/result.ts";
import { html, trusted } from "../../worker/html.ts";
import { dollars, stretch } from "../../worker/words.ts";
import { ask, BOARD, gate, ports, REQUEST, SETTINGS, T0, VIEW } from "./ports.ts";

const HOSTILE = `<img src=x onerror=alert(1)>"'&</title><script>alert(2)</script>`;

async function page(view: GateView, settings = SETTINGS): Promise<{ text: string; answer: Response }> {
  const answer = await ask(ports({ settings: ok(settings), gate: () => gate({ view: async () => view }) }), "/");
  // Where a line breaks is the formatter's choice.
  return { text: (await answer.text()).replaceAll(/\s+/g, " "), answer };
}

describe("the status page", () => {
  it.each(["/", "/api/status"])("%s is not there unless it was switched on", async (path) => {
    const answer = await ask(ports({ settings: ok({ ...SETTINGS, statusPage: false }) }), path);
    expect([answer.status, await answer.text()]).toEqual([404, "There is nothing at this address."]);
  });

  it("is there for the operator's token in any case as JSON, and for no other", async () => {
    const operatorToken = "o".repeat(32);
    const closed = ports({ settings: ok({ ...SETTINGS, statusPage: false, operatorToken }) });
    const status = async (path: string, token: string) =>
      (await ask(closed, path, { headers: { authorization: `Bearer ${token}` } })).status;
    expect(await status("/api/status", operatorToken)).toBe(200);
    expect(await status("/api/status", "p".repeat(32))).toBe(404);
    expect(await status("/", operatorToken)).toBe(404);
  });

  it("shows other people's text as text, wherever it stands", async () => {
    const hostile = { ...REQUEST, title: HOSTILE, headline: HOSTILE, gpu: HOSTILE, reason: HOSTILE, detail: HOSTILE };
    const { text } = await page({
      ...VIEW,
      repository: `octo/${HOSTILE}`,
      queue: [hostile],
      open: [hostile, { ...hostile, id: "r2" }],
      recent: [{ ...hostile, id: "r3", verdict: HOSTILE, conclusion: HOSTILE, concludedAt: T0 }],
      pods: [
        { podId: HOSTILE, requestId: "r2", prNumber: 7, gpu: HOSTILE, pricePerHour: 0.32, since: T0, costMicros: 1 },
      ],
    });
    expect(text).not.toContain("<img");
    expect(text).not.toContain("<script>alert");
    expect(text).toContain("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;");
    // One script: ours.
    expect(text.match(/<script/g)).toHaveLength(1);
  });

  it("names the pull request of a pod that is kept, and counts it into what that request has cost", async () => {
    const ended = { ...REQUEST, id: "r6", prNumber: 12, verdict: "failed", conclusion: "failure", concludedAt: T0 };
    const kept = { podId: "p6", requestId: "r6", prNumber: 12, gpu: "L4", pricePerHour: 0.36, since: T0 - 600_000 };
    const { text } = await page({
      ...VIEW,
      recent: [{ ...ended, pods: 1, costMicros: 0 }],
      pods: [{ ...kept, costMicros: 60_000, retainedUntil: T0 + 600_000, retainedBy: "mira" }],
    });
    expect(text).toMatch(/<p class="for"><a href="[^"]*\/pull\/12">#12<\/a>/);
    expect(text).toContain("$0.0600 so far");
    expect(text).toContain("kept for debugging until");
  });

  it("tells what was spent beside the caps, and marks a cap that is reached", async () => {
    const day = { spent: 1_250_000, reserved: 0, cap: 20_000_000 };
    const month = { spent: 199_000_000, reserved: 1_000_000, cap: 200_000_000 };
    const { text } = await page({ ...VIEW, money: { day, month } });
    expect(text).toContain(`<div class=""> <dt>Today (UTC)</dt> <dd> $1.25 of $20.00 </dd> </div>`);
    expect(text).toContain(
      `<div class="bad"> <dt>This month (UTC)</dt> <dd> $199.00 of $200.00 <small>and up to $1.00 set aside</small> </dd> </div>`,
    );
    const unread = await page(VIEW);
    expect(unread.text).toContain("<dd> $0.0000 </dd>");
  });

  it("loads nothing from elsewhere, and runs only what carries this answer's nonce", async () => {
    const { text, answer } = await page(VIEW);
    const policy = answer.headers.get("content-security-policy") ?? "";
    const nonce = /script-src 'nonce-([\w-]+)'/.exec(policy)?.[1] ?? "none";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    expect(text).toContain(`<script nonce="${nonce}">`);
    expect(text).toContain(`<style nonce="${nonce}">`);
    expect(text).not.toMatch(/\s(?:src|style|onclick)=/);
    const again = await page(VIEW);
    expect(again.answer.headers.get("content-security-policy")).not.toBe(policy);
  });

  it("shows the pod in use with what its clock and cost need, and where its pull request is", async () => {
    const { text } = await page({
      ...VIEW,
      open: [REQUEST],
      pods: [
        {
          podId: "pod1",
          requestId: "r1",
          prNumber: 7,
          gpu: "NVIDIA RTX A4000",
          pricePerHour: 0.32,
          since: T0 - 200_000,
          costMicros: 17_778,
        },
      ],
    });
    expect(text).toContain(`<span data-since="${T0 - 200_000}">3 min 20 s</span>`);
    expect(text).toContain(`data-rate="0.32">$0.0178</span> at $0.32/h`);
    expect(text).toContain(`<a href="https://github.test/octo/engine/pull/7">#7</a> Make it faster`);
    expect(text).toContain(`<main data-now="${T0}">`);
  });

  it("shows the queue in order and the verdicts with price, paid time and cost", async () => {
    const { text } = await page({
      ...VIEW,
      queue: [
        { ...REQUEST, id: "r2", prNumber: 8 },
        { ...REQUEST, id: "r3", prNumber: 9 },
      ],
      recent: [
        {
          ...REQUEST,
          id: "r0",
          prNumber: 6,
          state: "concluded",
          verdict: "passed",
          reason: "passed",
          conclusion: "success",
          concludedAt: T0,
          paidMs: 125_000,
          costMicros: 250_000,
        },
      ],
    });
    expect(text.indexOf(">#8<")).toBeGreaterThan(0);
    expect(text.indexOf(">#8<")).toBeLessThan(text.indexOf(">#9<"));
    expect(text).toContain('<span class="badge success">passed</span>');
    expect(text).toContain("2 min 5 s");
    expect(text).toContain("$0.25");
  });

  it("lists lanes without a machine as open state and NOT RUN, with the last look, never as passed", async () => {
    const lane = {
      name: "coverage_gpu",
      labels: ["self-hosted", "gpu-full"],
      switchName: "GPU_COVERAGE_ENABLED",
      checks: ["Coverage GPU"],
      runbook: "https://example.org/runbook",
      state: "OPEN",
      word: "NOT RUN",
      code: "lane-offline",
      why: HOSTILE,
      switchValue: "true",
      seenAt: T0 - 30_000,
    } as const;
    const ready = { ...lane, name: "sycl", state: "READY", word: "", code: "lane-available", runbook: null } as const;
    const unseen = { ...lane, name: "idle", code: null, switchValue: null, seenAt: null } as const;
    const { text } = await page({ ...VIEW, lanes: [lane, ready, unseen] });
    expect(text).toContain("Lanes on own machines <small>2 of 3 open</small>");
    expect(text).toContain('<a href="https://example.org/runbook">coverage_gpu</a>');
    expect(text).toContain('<span class="badge lane-open">OPEN</span> <b>NOT RUN</b>');
    expect(text).toContain("<code>GPU_COVERAGE_ENABLED</code> is <code>true</code>");
    expect(text).toContain(`<span data-since="${T0 - 30_000}">30 s</span> ago`);
    expect(text).toContain('<span class="badge lane-ready">READY</span></div>');
    expect(text).not.toContain("<img");
    expect(text).not.toMatch(/passed|badge success/);
    expect((await page(VIEW)).text).not.toContain("Lanes on own machines");
  });

  it("shows the fleet board above it, and what cron could not do", async () => {
    const board = { ...BOARD, problems: ["The gate of repository 102 did not answer: <reset>."] };
    const answer = await ask(ports({ board: { ...ports().board, read: async () => ok(board) } }), "/");
    const text = await answer.text();
    expect(text).toContain("did not answer: &lt;reset&gt;.");
    expect(text).toContain(`<span data-since="${BOARD.at}">30 s</span> ago`);
    expect(text.indexOf("Last cron tick")).toBeLessThan(text.indexOf("octo/engine"));
  });

  it("one gate that does not answer does not hide the others; registered ones are shown too", async () => {
    const given = ports({
      registered: async () => [
        { id: "101", owner: "octo", name: "engine" },
        { id: "103", owner: "octo", name: "old" },
      ],
      gate: (id) => gate({ view: () => (id === "101" ? Promise.reject(new Error("reset")) : Promise.resolve(VIEW)) }),
    });
    const text = await (await ask(given, "/")).text();
    expect(text).toContain("Its gate did not answer.");
    expect(text).toContain("octo/engine");
    const status = await (await ask(given, "/api/status")).json();
    expect(status).toMatchObject({
      at: T0,
      repositories: [
        { id: "101", view: null },
        { id: "103", view: { repository: "octo/engine" } },
      ],
      board: { at: BOARD.at },
    });
  });
});

describe("html", () => {
  it("escapes text and attributes, keeps finished HTML, drops null, joins lists", () => {
    expect(html`<a title="${`"<&>'`}">${html`<b>${"<"}</b>`}${null}${["x", 2, html`<i></i>`]}</a>`.text).toBe(
      `<a title="&quot;&lt;&amp;&gt;&#39;"><b>&lt;</b>x2<i></i></a>`,
    );
    expect(html`${trusted("<hr>")}`.text).toBe("<hr>");
  });
});

describe("words", () => {
  it.each([
    [-5, "0 s"],
    [59_400, "59 s"],
    [59_600, "1 min 0 s"],
    [3_599_000, "59 min 59 s"],
    [7_500_000, "2 h 5 min"],
    [90_000_000, "1 d 1 h"],
  ])("%i ms is %s", (ms, words) => {
    expect(stretch(ms)).toBe(words);
  });

  it.each([
    [0, "$0.0000"],
    [17_778, "$0.0178"],
    [100_000, "$0.10"],
    [12_345_678, "$12.35"],
  ])("%i micro-dollars are %s", (micros, words) => {
    expect(dollars(micros)).toBe(words);
  });
});
