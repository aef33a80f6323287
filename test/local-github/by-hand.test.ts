/** What a person may type into a world that stays up, and what it then tells them. */
import { createServer, type Server } from "node:http";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newWebhookSecret, startLocalGitHub, type LocalGitHub } from "../../local/github/index.ts";
import { byHand, operatorHint, wordList } from "../../local/world/by-hand.ts";
import { NAME, OWNER } from "../../local/world/opening-day.ts";
import type { World } from "../../local/world/world.ts";

let github: LocalGitHub;
let server: Server;
let world: World;
let recent: object[] = [];
const ROW = {
  generation: 1,
  step: null,
  verdict: null,
  reason: null,
  detail: null,
  published: true,
  gpu: null,
  pricePerHour: null,
  paidMs: 0,
  costMicros: 0,
  pods: 0,
  concludedAt: null,
};

beforeAll(async () => {
  github = await startLocalGitHub({ webhookSecret: newWebhookSecret() });
  github.createRepository({ owner: OWNER, name: NAME, files: { "README.md": "# tensors\n" } });
  const lock = { holder: null };
  server = createServer((_, answer) => {
    answer.end(JSON.stringify({ repositories: [{ view: { recent, queue: [], lock, ledger: [] } }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
  world = { github, worker: { url }, operatorToken: "of-this-world" } as unknown as World;
});

afterAll(async () => {
  server.close();
  await github.close();
});

it("opens what each word says, names the words for any other line, and tells what changes from then on", async () => {
  recent = [{ ...ROW, id: "r1", prNumber: 1, headSha: "a".repeat(40), state: "concluded", headline: "of the day" }];
  const input = new PassThrough();
  let end = () => {};
  const stop = new Promise<void>((resolve) => (end = resolve));
  const lines: string[] = [];
  const heard = new Set<() => void>();
  const said = async (part: string): Promise<void> => {
    while (!lines.some((line) => line.includes(part))) await new Promise<void>((resolve) => heard.add(resolve));
  };
  const say = (line: string) => {
    lines.push(line);
    for (const wake of heard) wake();
  };
  const over = byHand(world, say, input, stop);
  input.write("docs\n Fail \n\nfork\nbuy\n");
  await said("'buy' is no word here: docs, code, slow, fail, fork, rerun N");
  input.write("rerun 9\nrerun 2\n");
  await said("#2 has no check `CI GPU gate` here");
  expect(lines).toContain("#9 has no check `CI GPU gate` here");
  const pulls = [1, 2, 3].map((number) => lines.find((line) => line.startsWith(`#${number} opened by`)));
  expect(pulls).toEqual([
    "#1 opened by mira: documentation: no GPU is needed",
    "#2 opened by mira: code: its GPU tests fail",
    "#3 opened by stranger: code of a fork: refused",
  ]);
  recent = [
    { ...ROW, id: "r2", prNumber: 2, headSha: "b".repeat(40), state: "preparing", headline: "Building" },
    ...recent,
  ];
  // The words may end before the world does.
  input.end();
  await said("#2 bbbbbbb  Building");
  end();
  await over;
  expect(lines.join("\n")).not.toContain("of the day");
});

it("explains itself: how to reach it from another terminal, and each word", () => {
  const hint = operatorHint(world);
  expect(hint).toContain(`GPU_GATE_URL=${world.worker.url} GPU_GATE_OPERATOR_TOKEN=of-this-world`);
  for (const word of ["docs", "code", "slow", "fail", "fork"]) expect(wordList()).toContain(`  ${word}  `);
});
