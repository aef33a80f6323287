/** Where the time and the memory go: V8's sampling profiler, with every sample booked to a layer by the file it was in. */
import process from "node:process";
import { Session } from "node:inspector/promises";
import * as z from "zod";

const nodeSchema = z.object({
  id: z.number(),
  callFrame: z.object({ functionName: z.string(), url: z.string() }),
  children: z.array(z.number()).default([]),
});
const profileSchema = z.object({
  nodes: z.array(nodeSchema),
  samples: z.array(z.number()).default([]),
  timeDeltas: z.array(z.number()).default([]),
});

/** As `Profiler.stop` gives it; `timeDeltas` in microseconds. */
export type Profile = z.infer<typeof profileSchema>;
type ProfileNode = Profile["nodes"][number];

/** Microseconds between two samples: fine enough for shares of a per cent, and small over a night. */
const INTERVAL_US = 1_000;

/** The first that is part of a file's address names its layer. */
const LAYERS: readonly (readonly [part: string, layer: string])[] = [
  ["/node_modules/zod/", "zod"],
  ["/node_modules/@octokit/", "octokit"],
  ["/node_modules/before-after-hook/", "octokit"],
  ["/node_modules/json-with-bigint/", "octokit"],
  ["/node_modules/yaml/", "yaml"],
  ["/node_modules/", "other packages"],
  ["/sim/sql.ts", "SQLite"],
  ["/sim/checkers/", "checkers"],
  ["/sim/net.ts", "virtual network and time"],
  ["/sim/answer.ts", "virtual network and time"],
  ["/sim/scheduler.ts", "virtual network and time"],
  ["/sim/platform.ts", "virtual network and time"],
  ["/sim/", "virtual vendors, people and books"],
  ["/durable-objects/", "gate and account"],
  ["/cron/", "cron duties"],
  ["/shared/lifecycle/", "lifecycle core"],
  ["/shared/github/", "clients"],
  ["/shared/runpod/", "clients"],
  ["/shared/http.ts", "clients"],
  ["/shared/", "other shared code"],
  ["node:internal/deps/undici", "node: fetch, streams, URLs"],
  ["node:internal/webstreams", "node: fetch, streams, URLs"],
  ["node:internal/url", "node: fetch, streams, URLs"],
  ["node:internal/modules", "node: loading the program"],
  ["node:internal/deps/amaro", "node: loading the program"],
  ["node:internal/crypto", "node: cryptography"],
  ["node:", "node: the rest"],
];

/** Starts sampling; the function it gives ends that and tells each layer's share of the busy time, largest first. */
export async function startProfile(): Promise<() => Promise<ReadonlyMap<string, number>>> {
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.setSamplingInterval", { interval: INTERVAL_US });
  await session.post("Profiler.start");
  return async () => {
    const stopped: unknown = await session.post("Profiler.stop");
    session.disconnect();
    return shares(z.object({ profile: profileSchema }).parse(stopped).profile);
  };
}

/** Each layer's share of the time that was not idle, from 0 to 1. */
export function shares(profile: Profile): ReadonlyMap<string, number> {
  const layers = new Map<number, string>();
  const parents = new Map<number, ProfileNode>();
  for (const node of profile.nodes) for (const child of node.children) parents.set(child, node);
  for (const node of profile.nodes) layers.set(node.id, layerOf(node, parents));
  const times = new Map<string, number>();
  let busy = 0;
  for (const [index, id] of profile.samples.entries()) {
    const layer = layers.get(id) ?? "";
    const time = profile.timeDeltas[index] ?? 0;
    if (layer === "") continue;
    busy += time;
    times.set(layer, (times.get(layer) ?? 0) + time);
  }
  return new Map([...times].toSorted(([, a], [, b]) => b - a).map(([layer, time]) => [layer, time / busy]));
}

/** Built-in functions and code made while running have no file: they belong to whoever called them. Idle: no layer. */
function layerOf(node: ProfileNode, parents: ReadonlyMap<number, ProfileNode>): string {
  const { functionName } = node.callFrame;
  if (functionName === "(idle)") return "";
  if (functionName === "(garbage collector)") return "garbage collection";
  let at: ProfileNode | undefined = node;
  while (at !== undefined && at.callFrame.url === "") at = parents.get(at.id);
  const url = at?.callFrame.url ?? "";
  return LAYERS.find(([part]) => url.includes(part))?.[1] ?? "the engine itself";
}

/** The least heap in use seen since the last word: what stays after garbage is collected. */
export class HeapWatch {
  readonly lows: number[] = [];
  #low = Infinity;

  look(): void {
    this.#low = Math.min(this.#low, process.memoryUsage().heapUsed);
  }

  /** The low water since the last time, megabytes. */
  say(): number {
    const megabytes = Math.round(this.#low / 1_048_576);
    if (this.#low !== Infinity) this.lows.push(megabytes);
    this.#low = Infinity;
    return megabytes;
  }
}
