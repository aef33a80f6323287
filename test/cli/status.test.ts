/** `status` and `queue`: the control plane's read API in a terminal, and honest about what did not answer. */
import { describe, expect, it } from "vitest";
import { gpuGate, type Answer } from "../hosted/io.ts";
import { shaOf } from "../github/stub.ts";

const NOW = Date.parse("2026-11-30T12:00:00Z");
const row = (more: object = {}) => ({
  id: "r7",
  prNumber: 12,
  headSha: shaOf("a"),
  title: "A change",
  state: "executing",
  headline: "GPU tests are running",
  verdict: null,
  reason: null,
  openedAt: NOW - 600_000,
  concludedAt: null,
  costMicros: 0,
  ...more,
});
const view = (more: object = {}) => ({
  repository: "octo/engine",
  at: NOW,
  lock: { holder: "r7", since: NOW - 300_000, fence: 3 },
  queue: [row({ id: "r8", prNumber: 13, state: "queued", headline: "Waiting for the GPU lock: place 1" })],
  open: [row()],
  recent: [
    row({
      id: "r6",
      state: "concluded",
      verdict: "passed",
      reason: "tests-passed",
      concludedAt: NOW - 1,
      costMicros: 12_300,
    }),
  ],
  pods: [
    { podId: "pod1", requestId: "r7", gpu: "NVIDIA L4", pricePerHour: 0.43, since: NOW - 240_000, costMicros: 28_700 },
  ],
  ledger: [],
  counters: {},
  ...more,
});
const status = (...repositories: object[]) => ({
  at: NOW,
  deployment: "gpu-gate",
  board: null,
  tallies: {},
  repositories,
});

async function ask(args: readonly string[], answer: () => Response): Promise<Answer & { asked: string[] }> {
  const asked: string[] = [];
  const done = await gpuGate(args, {
    env: { GPU_GATE_URL: "https://gate.test/" },
    fetch: async (input) => {
      asked.push(input);
      return answer();
    },
  });
  return { ...done, asked };
}

const ok =
  (...repositories: object[]) =>
  () =>
    Response.json(status(...repositories));

describe("gpu-gate status", () => {
  it("shows pods that are paid for, open requests and the last verdicts", async () => {
    const answer = await ask(["status"], ok({ id: "101", view: view() }));
    expect(answer.code).toBe(0);
    expect(answer.asked).toEqual(["https://gate.test/api/status"]);
    expect(answer.out.split("\n")).toEqual([
      "octo/engine (repository 101)",
      "  pod pod1 for r7: NVIDIA L4 at USD 0.43/h, 4 min, USD 0.0287 so far",
      "  r7 #12 aaaaaaaaaaaa  executing, open 10 min: GPU tests are running",
      "  r6 #12 aaaaaaaaaaaa  passed (tests-passed)  USD 0.0123",
      "",
    ]);
  });

  it("counts the pod that is kept of an ended request into what that has cost", async () => {
    const [ended] = view().recent;
    const pods = view().pods.map((pod) => ({ ...pod, requestId: ended?.id }));
    const answer = await ask(["status"], ok({ id: "101", view: view({ pods }) }));
    expect(answer.out).toContain("passed (tests-passed)  USD 0.0410 so far\n");
  });

  it("tells what was spent beside the caps, where the control plane tells it", async () => {
    const day = { spent: 12_300, reserved: 0, cap: 20_000_000 };
    const month = { spent: 112_300, reserved: 900_000, cap: null };
    const answer = await ask(["status"], ok({ id: "101", view: view({ money: { day, month } }) }));
    expect(answer.out).toContain(
      "\n  spent today (UTC) USD 0.0123 of USD 20.0000, this month USD 0.1123 and up to USD 0.9000 set aside\n",
    );
  });

  it("tells what has begun a moment ago in seconds", async () => {
    const { at } = status() as { at: number };
    const young = row({ openedAt: at - 59_900 });
    expect((await ask(["status"], ok({ id: "101", view: view({ open: [young] }) }))).out).toContain("open 59 s:");
  });

  it("says so when nothing is paid for", async () => {
    const answer = await ask(["status"], ok({ id: "101", view: view({ pods: [], open: [], recent: [] }) }));
    expect(answer.out).toContain("no pod is paid for");
    expect(answer.out).toContain("no open request");
  });

  it("a gate that did not answer is no idle gate", async () => {
    const answer = await ask(["status"], ok({ id: "101", view: null }));
    expect(answer.code).toBe(1);
    expect(answer.out).toContain("did not answer");
  });

  it("prints the answer as JSON, for one repository if told", async () => {
    const other = { id: "102", view: view({ repository: "octo/other" }) };
    const answer = await ask(
      ["status", "--json", "--repository", "OCTO/Engine"],
      ok({ id: "101", view: view() }, other),
    );
    expect(JSON.parse(answer.out)).toMatchObject({ repositories: [{ id: "101" }] });
  });

  it.each([
    ["the page is off", () => new Response("There is nothing at this address.", { status: 404 }), "STATUS_PAGE"],
    ["it is broken", () => new Response("", { status: 500 }), "answered 500"],
    ["it is something else", () => new Response("<html>", { status: 200 }), "did not answer JSON"],
    ["it is another API", () => Response.json({ ok: true }), "something else than expected"],
    [
      "it is away",
      () => {
        throw new TypeError("no route");
      },
      "no answer",
    ],
  ])("fails with a sentence when %s", async (_what, answerWith, words) => {
    const answer = await ask(["status"], answerWith);
    expect(answer.code).toBe(1);
    expect(answer.err).toContain(words);
  });

  it("shows the operator's token where one is set, and to an https address only", async () => {
    const GPU_GATE_OPERATOR_TOKEN = "operator-token-of-the-status-test";
    const shown: (string | null)[] = [];
    const env = (GPU_GATE_URL: string) => ({
      env: { GPU_GATE_URL, GPU_GATE_OPERATOR_TOKEN },
      fetch: async (_url: string, init?: RequestInit) => {
        shown.push(new Headers(init?.headers).get("authorization"));
        return ok({ id: "101", view: view() })();
      },
    });
    expect((await gpuGate(["status"], env("https://gate.test"))).code).toBe(0);
    expect(await gpuGate(["status"], env("http://gate.test"))).toMatchObject({ code: 2, out: "" });
    expect(shown).toEqual([`Bearer ${GPU_GATE_OPERATOR_TOKEN}`]);
  });

  it("a terminal cannot be driven by a headline", async () => {
    const answer = await ask(
      ["status"],
      ok({ id: "101", view: view({ open: [row({ headline: "\u001B[2Jgone\nr9 fake" })] }) }),
    );
    expect(answer.out).not.toContain("\u001B");
    expect(answer.out.split("\n").some((line) => line.startsWith("r9"))).toBe(false);
  });

  it.each([[["status"]], [["queue"]], [["status", "--json"]]])(
    "%j fails for a repository that is not served",
    async (args) => {
      const answer = await ask([...args, "--repository", "nobody/nothing"], ok({ id: "101", view: view() }));
      expect(answer.code).toBe(1);
      expect(answer.err).toBe(`gpu-gate ${args[0]}: no repository 'nobody/nothing' is served at https://gate.test.\n`);
    },
  );

  it("a gate that did not answer may be the one that was asked about", async () => {
    const answer = await ask(["status", "--repository", "octo/engine"], ok({ id: "101", view: null }));
    expect([answer.code, answer.err]).toEqual([1, expect.stringContaining("or its gate did not answer")]);
  });

  it.each([[["status"]], [["queue"]]])("%j wants an address", async (args) => {
    const answer = await gpuGate(args);
    expect(answer.code).toBe(2);
    expect(answer.err).toContain("GPU_GATE_URL");
  });
});

describe("gpu-gate queue", () => {
  it("shows who holds the lock and who waits, in order", async () => {
    const second = row({ id: "r9", prNumber: null, state: "queued", headline: "Waiting for the GPU lock: place 2" });
    const answer = await ask(["queue"], ok({ id: "101", view: view({ queue: [...view().queue, second] }) }));
    expect(answer.out.split("\n")).toEqual([
      "octo/engine (repository 101)",
      "  r7 holds the GPU lock, 5 min",
      "  1. r8 #13 aaaaaaaaaaaa  queued, open 10 min: Waiting for the GPU lock: place 1",
      "  2. r9 aaaaaaaaaaaa  queued, open 10 min: Waiting for the GPU lock: place 2",
      "",
    ]);
  });
});
