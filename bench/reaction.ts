/**
 * From the GPU job's end to the DELETE that ends the bill, with the poll at its standard 15 s and 5 s: by the pod's own
 * last call, by GitHub's webhook, and when both are lost. The gate in this process, the local GitHub and RunPod over HTTP.
 */
import { EXECUTE } from "../local/world/workflows.ts";
import { CONFIG, startLife, type Life } from "../test/gate/life.ts";
import type { BenchRow } from "./row.ts";

const ROUNDS = 3;
const POLLS = CONFIG.replace("watch_poll: 0.3", "watch_poll: 15").replace(
  "watch_poll_tests: 0.2",
  "watch_poll_tests: 5",
);

interface Way {
  readonly name: string;
  readonly note: string;
  readonly podSpeaks: boolean;
  readonly webhooks: boolean;
}

const WAYS: readonly Way[] = [
  { name: "by the pod's call", podSpeaks: true, webhooks: false, note: "target: under 1,000 ms" },
  { name: "by a webhook", podSpeaks: false, webhooks: true, note: "target: under 1,000 ms" },
  {
    name: "both lost",
    podSpeaks: false,
    webhooks: false,
    note: "target: one poll: 15,000 ms, 5,000 ms once the test step was seen",
  },
];

export async function run(): Promise<readonly BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const way of WAYS) {
    const life = await startLife({ config: POLLS });
    try {
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) times.push(await measure(life, way, round));
      const note = `${way.note}; worst of ${ROUNDS}`;
      rows.push({ name: `job's end to DELETE, ${way.name}`, value: Math.max(...times), unit: "ms", note });
    } finally {
      await life.close();
    }
  }
  return rows;
}

async function measure(life: Life, way: Way, round: number): Promise<number> {
  const { gate, github, repository, runpod } = life;
  const podCall = gate.podCall.bind(gate);
  gate.podCall = (attemptId, nonce, word) =>
    word.kind === "exit" && !way.podSpeaks ? Promise.resolve(false) : podCall(attemptId, nonce, word);
  const head = life.openCode(`round${round}`);
  await life.until(head, "the GPU tests", (request) => request.state.kind === "executing");
  const deletes = () => runpod.requests().filter((entry) => entry.method === "DELETE");
  const before = deletes().length;
  const { url } = github.webhooks;
  if (!way.webhooks) github.webhooks.configure({ url: null });
  const limit = Date.now() + 60_000;
  while (deletes().length === before) {
    if (Date.now() > limit) throw new Error("no DELETE within a minute");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const sentAt = deletes().at(-1)?.atMs ?? Date.now();
  const endedAt = repository.runs(EXECUTE).at(-1)?.attempts.at(-1)?.jobs[0]?.completedAt ?? sentAt;
  github.webhooks.configure({ url });
  await life.concluded(head);
  return sentAt - endedAt;
}
