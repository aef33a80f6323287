/**
 * Whole request lives in the simulator's world (virtual clock, virtual vendors, the real gate, account, clients and cron),
 * with something damaged underneath while they go on. The damage stops when the world heals; then everything must end.
 */
import process from "node:process";
import { planFaults, type FaultKind } from "../sim/faults.ts";
import type { NetAnswer, NetRequest } from "../sim/net.ts";
import { installPlatform } from "../sim/platform.ts";
import type { Checker } from "../sim/view.ts";
import { World } from "../sim/world.ts";

/** A healed world is given two lifetimes of a pod behind a full queue. */
const HEAL_MS = 12 * 3_600_000;

export interface Life {
  readonly world: World;
  /** What a checker objected to, what was thrown where nobody caught it, or null. */
  readonly wrong: string | null;
}

export interface LifeOptions {
  readonly seed: number;
  readonly pulls: number;
  readonly checkers: readonly Checker[];
  /** Called once, before anything happens. */
  readonly prepare: (world: World) => void;
  readonly only?: ReadonlySet<FaultKind>;
  /** Asked at the end, while the databases can still be read: null, or what is wrong. */
  readonly atEnd?: (world: World) => string | null;
  /** How long the healed world may take to come to rest. */
  readonly healMs?: number;
}

export async function live(options: LifeOptions): Promise<Life> {
  const uninstall = installPlatform();
  // What a promise nobody waits for throws would end the process of a real deployment's isolate.
  const unheard: string[] = [];
  const hear = (error: unknown): void =>
    void unheard.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
  process.on("unhandledRejection", hear);
  const world = new World({
    plan: planFaults(options.seed, options.only ?? new Set(), new Set()),
    keepTrace: false,
    maxPulls: options.pulls,
    maxRepositories: 1,
    checkers: options.checkers,
  });
  try {
    options.prepare(world);
    let thrown: string | null = null;
    try {
      await world.run(options.healMs ?? HEAL_MS);
    } catch (error) {
      thrown = error instanceof Error ? `${error.name}: ${error.message}` : "something was thrown";
    }
    const { violation } = world;
    const wrong =
      violation !== null
        ? `${violation.checker}: ${violation.what}`
        : (thrown ??
          (unheard.length > 0 ? `nobody caught: ${unheard[0]?.slice(0, 500)}` : (options.atEnd?.(world) ?? null)));
    return { world, wrong };
  } finally {
    process.off("unhandledRejection", hear);
    world.close();
    uninstall();
  }
}

type Perform = (request: NetRequest) => NetAnswer;

/** Stands between a virtual vendor and the network: sees every answer, may give another. */
export function between(
  server: { perform: Perform; operation(method: string, path: string): string },
  change: (operation: string, request: NetRequest, answer: NetAnswer) => NetAnswer,
): void {
  const perform = server.perform.bind(server);
  server.perform = (request) => change(server.operation(request.method, request.path), request, perform(request));
}
