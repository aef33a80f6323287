/**
 * `npm run crash-matrix`: kills the Worker with SIGKILL at points of the matrix, life after life, and holds every life to the
 * end that the kills leave it. Each pass over the matrix kills at every point once, several of a life in the order in which
 * it meets them; later passes mix them differently. Each line says at which calls the kills hit.
 *
 * Ends 0 when every life ended as it had to, 1 when one did not, 2 for a wrong call.
 */
import process from "node:process";
import { numberOf, optionsOf, misused, type Command } from "../../sim/options.ts";
import { allPoints, type NamedPoint } from "./crash-points.ts";
import { CrashWorld, nameOf, type LifeResult } from "./crash-world.ts";

const COMMAND: Command = {
  name: "npm run crash-matrix",
  usage: `npm run crash-matrix -- [options]

  --crashes N    so many kills at least (60)
  --seconds N    no life is begun after so many, however many kills there were (no limit)
  --points a,b   only at these points
  --per-life N   at most so many kills in one life (3)
  --seed S       the order of the first pass; each pass takes the next (1)
`,
};

/** Lives that a point is given until the Worker comes to it. */
const LIVES_A_POINT = 3;

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

interface Wanted {
  readonly crashes: number;
  readonly seconds: number;
  readonly perLife: number;
  readonly seed: number;
  readonly points: readonly NamedPoint[];
}

/** What is wanted; a wrong option ends the process with one sentence. */
function wantedOf(): Wanted {
  const { values } = optionsOf(COMMAND, {
    options: {
      crashes: { type: "string", default: "60" },
      seconds: { type: "string" },
      points: { type: "string" },
      "per-life": { type: "string", default: "3" },
      seed: { type: "string", default: "1" },
    },
  });
  const names = values.points?.split(",");
  const known = new Set(allPoints().map((one) => one.name));
  const strange = names?.find((name) => !known.has(name));
  if (strange !== undefined) misused(COMMAND, `there is no point '${strange}'. There are: ${[...known].join(", ")}.`);
  return {
    crashes: numberOf(COMMAND, "crashes", values.crashes, { least: 1 }),
    seconds: values.seconds === undefined ? Infinity : numberOf(COMMAND, "seconds", values.seconds, { least: 1 }),
    perLife: numberOf(COMMAND, "per-life", values["per-life"], { least: 1 }),
    seed: numberOf(COMMAND, "seed", values.seed),
    points: allPoints().filter((one) => names === undefined || names.includes(one.name)),
  };
}

async function run({ crashes, seconds, perLife, seed, points }: Wanted): Promise<number> {
  const began = Date.now();
  const world = await CrashWorld.start();
  const tally = { kills: 0, lives: 0, lost: 0, wrong: 0 };
  const wanted = (): boolean => tally.kills < crashes && Date.now() - began < seconds * 1_000;
  const play = async (life: readonly NamedPoint[]): Promise<LifeResult> => {
    const result = await world.live(life);
    tally.kills += result.kills.length;
    tally.lives += 1;
    if (result.problems.length > 0) tally.wrong += 1;
    else if (result.lost !== null) tally.lost += 1;
    const at = `${tally.kills} kills, ${tally.lives} lives, ${(result.tookMs / 1000).toFixed(1)} s`;
    process.stdout.write(`${at}: ${lineOf(result)}\n`);
    return result;
  };
  try {
    for (let pass = 0; wanted(); pass += 1) {
      const before = tally.kills;
      const lives = plan(points, perLife, seed + pass).map((life) => ({ life, left: LIVES_A_POINT - 1 }));
      for (let next = lives.shift(); next !== undefined && wanted(); next = lives.shift()) {
        const { unmet } = await play(next.life);
        // A life that ended before them owes them another one; points that no life comes to are found out by the others.
        if (unmet.length > 0 && next.left > 0) lives.push({ life: unmet, left: next.left - 1 });
      }
      if (tally.kills === before) break;
    }
  } finally {
    await world.close();
  }
  const { kills, lives, lost, wrong } = tally;
  process.stdout.write(
    `${kills} kills in ${lives} lives, ${Math.round((Date.now() - began) / 1000)} s: ${lives - lost - wrong} converged, ` +
      `${lost} ended without the run whose start was killed, as they had to, ${wrong} ended wrongly\n`,
  );
  return wrong === 0 && kills > 0 && (kills >= crashes || seconds < Infinity) ? 0 : 1;
}

/** What one life was: its kills, and how it ended. */
function lineOf({ kills, problems, lost, unmet }: LifeResult): string {
  const hits = kills.map(({ point, call }) => `${point} (${call})`).join(", ");
  if (problems.length > 0) return `${hits}: WRONG: ${problems.join("; ")}`;
  if (lost === null) return `${hits}: converged`;
  const owed = unmet.length === 0 ? "" : `; still to come: ${unmet.map(nameOf).join(", ")}`;
  return `${hits}: ended as it had to, ${lost}${owed}`;
}

if (import.meta.main) process.exitCode = await run(wantedOf());
