/**
 * The status page in a real Chromium: what no text comparison shows. Its policy must let its own script and style run and
 * nothing else; its clocks run, its newest state arrives by itself, and it fits a telephone.
 */
import { createServer, type Server } from "node:http";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { GateView } from "../../durable-objects/gate/view.ts";
import { BROWSER_PATH, startBrowser } from "../support/browser.ts";
import { ask, gate, ports, REQUEST, T0, VIEW } from "./ports.ts";

const HOSTILE = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script></main><a href="javascript:1">`;

const BUSY: GateView = {
  ...VIEW,
  open: [REQUEST],
  queue: [{ ...REQUEST, id: "r2", prNumber: 8, title: "Second in line" }],
  recent: [
    {
      ...REQUEST,
      id: "r0",
      prNumber: 6,
      state: "concluded",
      verdict: "passed",
      reason: "tests-passed",
      conclusion: "success",
      concludedAt: T0 - 60_000,
    },
  ],
  pods: [
    {
      podId: "pod1",
      requestId: "r1",
      prNumber: 7,
      gpu: "NVIDIA RTX A4000",
      pricePerHour: 0.36,
      since: T0 - 200_000,
      costMicros: 20_000,
    },
  ],
};

describe.skipIf(BROWSER_PATH === null)("the status page in Chromium (skipped where none is installed)", () => {
  let view: GateView = BUSY;
  let browser: Browser;
  let server: Server;
  let url = "";

  beforeAll(async () => {
    server = createServer((_, outgoing) => {
      const given = ports({ gate: () => gate({ view: async () => view }) });
      void ask(given, "/").then(async (answer) => {
        outgoing.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/`;
    browser = await startBrowser();
  });

  afterAll(async () => {
    await browser.close();
    server.closeAllConnections();
    server.close();
  });

  /** A page whose clock the test moves, and everything the browser complained about. */
  async function open(shown: GateView, width = 1200): Promise<{ page: Page; complaints: string[] }> {
    view = shown;
    const page = await browser.newPage({ viewport: { width, height: 800 } });
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (line) => {
      if (line.type() === "error" || line.type() === "warning") complaints.push(line.text());
    });
    // Stopped: it moves when the test says so, and the page's own refresh does not come in between.
    await page.clock.install({ time: T0 - 1_000 });
    await page.clock.pauseAt(T0);
    await page.goto(url);
    return { page, complaints };
  }

  it("runs its own clock and cost, and nothing objects to it", async () => {
    const { page, complaints } = await open(BUSY);
    const clock = page.locator(".pod [data-since]:not([data-rate])");
    expect(await clock.textContent()).toBe("3 min 20 s");
    expect(await page.locator(".pod [data-rate]").textContent()).toBe("$0.0200");
    await page.clock.runFor(4_000);
    expect(await clock.textContent()).toBe("3 min 24 s");
    expect(await page.locator(".pod [data-rate]").textContent()).toBe("$0.0204");
    expect(complaints).toEqual([]);
    await page.close();
  });

  it("takes the newest state in by itself, and an opened fold stays open", async () => {
    const { page, complaints } = await open(BUSY);
    const queue = page.getByText("Second in line");
    expect(await queue.count()).toBe(1);
    view = { ...BUSY, queue: [{ ...REQUEST, id: "r3", prNumber: 9, title: "Newly in line" }] };
    await page.clock.runFor(5_100);
    await page.getByText("Newly in line").waitFor();
    expect(await queue.count()).toBe(0);
    expect(complaints).toEqual([]);
    await page.close();
  });

  it("says that it is out of date when the Worker stops answering, and recovers", async () => {
    const { page } = await open(BUSY);
    await page.route("**/*", (route) => route.abort());
    await page.clock.runFor(5_100);
    await page.locator("body.stale").waitFor();
    expect(await page.getByText("Second in line").count()).toBe(1);
    await page.unroute("**/*");
    await page.clock.runFor(5_100);
    await page.locator("body:not(.stale)").waitFor();
    await page.close();
  });

  it("runs nothing that a title, a GPU's name or a reason carries", async () => {
    const hostile = { ...REQUEST, title: HOSTILE, headline: HOSTILE, gpu: HOSTILE, reason: HOSTILE, detail: HOSTILE };
    const { page, complaints } = await open({
      ...VIEW,
      repository: `octo/${HOSTILE}`,
      queue: [{ ...hostile, id: "r2" }],
      open: [hostile],
      recent: [{ ...hostile, id: "r3", verdict: HOSTILE, conclusion: HOSTILE, concludedAt: T0 }],
    });
    await page.clock.runFor(5_100);
    expect(await page.title()).toBe("gpu-gate: testing");
    expect(await page.locator("img").count()).toBe(0);
    expect(await page.locator("main").count()).toBe(1);
    const targets = await page.locator("a").evaluateAll((links) => links.map((one) => one.getAttribute("href") ?? ""));
    expect(targets.filter((target) => !target.startsWith("https://github.test/"))).toEqual([]);
    expect(complaints).toEqual([]);
    await page.close();
  });

  it("would be told of it: an inline handler that is let through is refused by the policy, aloud", async () => {
    const { page, complaints } = await open(BUSY);
    const planted = `<p onclick="document.title='owned'" id="planted">here</p>`;
    await page.evaluate(`document.body.insertAdjacentHTML("beforeend", ${JSON.stringify(planted)})`);
    await page.locator("#planted").click();
    expect(await page.title()).toBe("gpu-gate: testing");
    expect(complaints.join(" ")).toContain("Content Security Policy");
    await page.close();
  });

  it.each([360, 700, 1200])("fits a screen %i pixels wide, with the longest words there are", async (width) => {
    const long = { ...REQUEST, title: "w".repeat(250), gpu: "NVIDIA ".repeat(20), detail: "d".repeat(400) };
    const recent = { ...long, id: "r3", verdict: "infrastructure", conclusion: "failure", concludedAt: T0 };
    const { page } = await open({ ...BUSY, open: [long], queue: [{ ...long, id: "r2" }], recent: [recent] }, width);
    const over = await page.evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`);
    expect(over).toBe(0);
    await page.close();
  });
});
