/** Where the time goes: V8's sampling profiler, with every sample booked to a layer by the file it was in. */
import type { Profiler } from "node:inspector";
import { Session } from "node:inspector/promises";

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
    const { profile } = await session.post("Profiler.stop");
    session.disconnect();
    return shares(profile);
  };
}

/** Each layer's share of the time that was not idle, from 0 to 1. */
export function shares(profile: Profiler.Profile): ReadonlyMap<string, number> {
  const layers = new Map<number, string>();
  const parents = new Map<number, Profiler.ProfileNode>();
  for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node);
  for (const node of profile.nodes) layers.set(node.id, layerOf(node, parents));
  const times = new Map<string, number>();
  let busy = 0;
  for (const [index, id] of (profile.samples ?? []).entries()) {
    const layer = layers.get(id) ?? "";
    const time = profile.timeDeltas?.[index] ?? 0;
    if (layer === "") continue;
    busy += time;
    times.set(layer, (times.get(layer) ?? 0) + time);
  }
  return new Map([...times].toSorted(([, a], [, b]) => b - a).map(([layer, time]) => [layer, time / busy]));
}

/** Built-in functions and code made while running have no file: they belong to whoever called them. Idle: no layer. */
function layerOf(node: Profiler.ProfileNode, parents: ReadonlyMap<number, Profiler.ProfileNode>): string {
  const { functionName } = node.callFrame;
  if (functionName === "(idle)") return "";
  if (functionName === "(garbage collector)") return "garbage collection";
  let at: Profiler.ProfileNode | undefined = node;
  while (at !== undefined && at.callFrame.url === "") at = parents.get(at.id);
  const url = at?.callFrame.url ?? "";
  return LAYERS.find(([part]) => url.includes(part))?.[1] ?? "the engine itself";
}
