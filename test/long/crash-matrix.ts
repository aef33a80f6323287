/**
 * `npm run crash-matrix -- --crashes N [--points NAME,NAME] [--per-life N] [--seed N]`: kills the Worker with SIGKILL at
 * points of the matrix, life after life, and holds every life to the same end. Each pass over the matrix kills at every
 * point once, several of a life in the order in which it meets them; later passes mix them differently.
 *
 * Ends 0 when every life converged, 1 when one did not, 2 for a wrong call.
 */
import process from "node:process";
import { buildBundle } from "../../local/world/world.ts";
import { numberOf, optionsOf, type Command } from "../../sim/options.ts";
import { allPoints, type NamedPoint } from "./crash-points.ts";
import { CrashWorld, nameOf } from "./crash-world.ts";

/** Two kills at the same call are one; points that change the way of a life would keep others from being met. */
export function plan(points: readonly NamedPoint[], perLife: number, seed: number): readonly (readonly NamedPoint[])[] {
  let state = seed;
  const random = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  const mixed = points.map((point) => ({ point, at: random() })).toSorted((a, b) => a.at - b.at);
  const isAlone = ({ point, side }: NamedPoint): boolean =>
    point.provoke !== undefined || point.scenario !== "plain" || point.mayEnd?.includes(side) === true;
  const lives: NamedPoint[][] = mixed.flatMap(({ point }) => (isAlone(point) ? [[point]] : []));
  // The two sides of one call never meet: killed before it, a life may not come to it again.
  for (const side of ["before", "after"] as const) {
    const together = mixed.flatMap(({ point }) => (!isAlone(point) && point.side === side ? [point] : []));
    for (let at = 0; at < together.length; at += perLife) lives.push(together.slice(at, at + perLife));
  }
  return lives;
}

const COMMAND: Command = {
  name: "npm run crash-matrix",
  usage: `npm run crash-matrix -- [options]

  --crashes N    so many kills at least (60)
  --points a,b   only at these points
  --per-life N   at most so many kills in one life (3)
  --seed S       the order (1)
`,
};

async function main(): Promise<number> {
  const { values } = optionsOf(COMMAND, {
    options: {
      crashes: { type: "string", default: "60" },
      points: { type: "string" },
      "per-life": { type: "string", default: "3" },
      seed: { type: "string", default: "1" },
    },
  });
  const crashes = numberOf(COMMAND, "crashes", values.crashes, { least: 1 });
  const perLife = numberOf(COMMAND, "per-life", values["per-life"], { least: 1 });
  const seed = numberOf(COMMAND, "seed", values.seed);
  const wanted = values.points?.split(",");
  const points = allPoints().filter((one) => wanted === undefined || wanted.includes(one.name));
  if (points.length === 0) {
    process.stderr.write(`No such point. There are: ${[...new Set(allPoints().map((one) => one.name))].join(", ")}\n`);
    return 2;
  }
  const began = Date.now();
  const world = await CrashWorld.start(await buildBundle());
  const problems: string[] = [];
  let done = 0;
  let lives = 0;
  try {
    for (let pass = 0; done < crashes; pass += 1) {
      const before = done;
      for (const life of plan(points, perLife, seed + pass)) {
        if (done >= crashes) break;
        const result = await world.live(life);
        done += result.crashes;
        lives += 1;
        problems.push(...result.problems);
        const what = life.map(nameOf).join(", ");
        const end = result.problems.length === 0 ? "converged" : result.problems.join("; ");
        process.stdout.write(
          `${done} crashes, ${lives} lives, ${(result.tookMs / 1000).toFixed(1)} s: ${what}: ${end}\n`,
        );
      }
      if (done === before) break;
    }
  } finally {
    await world.close();
  }
  const seconds = Math.round((Date.now() - began) / 1000);
  process.stdout.write(`${done} crashes in ${lives} lives, ${problems.length} problems, ${seconds} s\n`);
  return problems.length === 0 && done >= crashes ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main();
