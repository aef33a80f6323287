/**
 * From the lock granted to the create request sent, with GitHub, RunPod and the registry answering after 50 ms each; and
 * the calls an attempt and a gated pull request cost, by kind. The gate runs in this process on node:sqlite.
 */
import { startLife, type Life } from "../test/gate/life.ts";
import { percentile, type BenchRow } from "./row.ts";

const LATENCY_MS = 50;
const ROUNDS = 5;

export async function run(): Promise<BenchRow[]> {
  const sent: number[] = [];
  const world = await startLife({
    latencyMs: LATENCY_MS,
    fetch: (next) => (input, init) => {
      if (init?.method === "POST" && input.endsWith("/v2/pods")) sent.push(Date.now());
      return next(input, init);
    },
  });
  try {
    const waits: number[] = [];
    let plain: Calls | null = null;
    for (let round = 0; round < ROUNDS; round += 1) {
      const before = mark(world);
      await world.concluded(world.openCode(`plain${round}`));
      waits.push(lockToCreate(world, before, sent));
      // The first one also reads what is then kept: contract, catalog, digest.
      if (round > 0) plain = calls(world, before);
    }
    const before = mark(world);
    world.runpod.nextPod({ nvidiaSmi: { mode: "ecc" } });
    await world.concluded(world.openCode("twice"));
    const twice = calls(world, before);
    const [cold = 0, ...warm] = waits;
    const note = `target 500 or less; every answer takes ${LATENCY_MS} ms`;
    return [
      { name: "lock granted to create sent, nothing kept", value: cold, unit: "ms", note },
      { name: "lock granted to create sent, contract and digest kept", value: percentile(warm, 0.5), unit: "ms", note },
      ...rows("gated pull request", plain ?? NONE),
      ...rows("further attempt (a bad machine first)", less(twice, plain ?? NONE)),
    ];
  } finally {
    await world.close();
  }
}

type Counts = ReadonlyMap<string, number>;
interface Calls {
  readonly github: Counts;
  readonly runpod: Counts;
}
const NONE: Calls = { github: new Map(), runpod: new Map() };

interface Mark {
  readonly at: number;
  readonly github: number;
  readonly runpod: number;
}

function mark(world: Life): Mark {
  return { at: Date.now(), github: world.github.books.requests.length, runpod: world.runpod.requests().length };
}

/** From the audit's word that the lock was granted to the moment the create left. */
function lockToCreate(world: Life, since: Mark, sent: readonly number[]): number {
  const granted = world.sql.exec<{ at: number }>(
    `SELECT at FROM audit WHERE act = 'lock.granted' AND at >= ? ORDER BY seq LIMIT 1`,
    since.at,
  )[0];
  const created = sent.find((at) => at >= since.at);
  if (granted === undefined || created === undefined) throw new Error("the benchmark's pull request bought nothing");
  return created - granted.at;
}

function calls(world: Life, since: Mark): Calls {
  const github = world.github.books.requests.slice(since.github).map((entry) => entry.operation ?? "other");
  const runpod = world.runpod
    .requests()
    .slice(since.runpod)
    .map((entry) => `${entry.method} ${entry.route}`);
  return { github: count(github), runpod: count(runpod) };
}

function count(kinds: readonly string[]): Counts {
  const counts = new Map<string, number>();
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

function less(more: Calls, fewer: Calls): Calls {
  const minus = (a: Counts, b: Counts): Counts =>
    new Map([...a].map(([kind, n]) => [kind, n - (b.get(kind) ?? 0)] as const).filter(([, n]) => n > 0));
  return { github: minus(more.github, fewer.github), runpod: minus(more.runpod, fewer.runpod) };
}

function rows(what: string, made: Calls): BenchRow[] {
  return (["github", "runpod"] as const).map((side) => ({
    name: `${side === "github" ? "GitHub" : "RunPod"} calls per ${what}`,
    value: [...made[side].values()].reduce((sum, n) => sum + n, 0),
    unit: "calls",
    note: [...made[side]]
      .toSorted((a, b) => b[1] - a[1])
      .map(([kind, n]) => `${kind} ${n}`)
      .join(", "),
  }));
}
