/**
 * `npm start`: the local world and the Worker, an opening day in front of the user, then more of what the user asks
 * for, until Ctrl-C.
 * `npm start -- --once` plays the day and exits 0 only if everything came out as it must.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { byHand, operatorHint, wordList } from "./world/by-hand.ts";
import { dayTable, NAME, OWNER, playOpeningDay } from "./world/opening-day.ts";
import { argumentProblem } from "../shared/arguments.ts";
import { whyNotPort } from "./world/ports.ts";
import { startWorld, type World } from "./world/world.ts";

const USAGE = `npm start -- [options]

  --once          play the opening day and exit: 0 if every verdict, every deletion and every bill is right
  --port N        port of the Worker and its status page (default: any free one)
  --crash-worker  kill the Worker's process with SIGKILL in the middle of the day
  --logs          show the Worker's own log lines

Exit codes: 0 as it must be, 1 something came out wrong, 2 wrong call or a port that cannot be had, 130 interrupted.
`;

function parse() {
  return parseArgs({
    options: {
      once: { type: "boolean", default: false },
      port: { type: "string", default: "0" },
      "crash-worker": { type: "boolean", default: false },
      logs: { type: "boolean", default: false },
    },
  }).values;
}

function misused(sentence: string): number {
  process.stderr.write(`npm start: ${sentence}\n`);
  return 2;
}

async function main(): Promise<number> {
  if (process.argv.slice(2).includes("--help")) {
    process.stdout.write(USAGE);
    return 0;
  }
  let values: ReturnType<typeof parse>;
  try {
    values = parse();
  } catch (error) {
    const problem = argumentProblem(error);
    if (problem === null) throw error;
    return misused(`${problem}; --help lists the options.`);
  }
  const port = /^\d{1,5}$/.test(values.port) ? Number(values.port) : Number.NaN;
  if (!(port <= 65_535)) return misused(`--port takes a number from 0 to 65535, not '${values.port}'.`);
  // Before the bundle is built: in the end it would be workerd that fails, and its words are not for the user.
  const taken = port === 0 ? null : await whyNotPort(port);
  if (taken !== null) return misused(`${taken}; choose another with --port.`);
  const started = Date.now();
  const say = (text: string) => {
    if (text === "") return void process.stdout.write("\n");
    const at = ((Date.now() - started) / 1000).toFixed(1).padStart(5);
    for (const line of text.split("\n")) process.stdout.write(`${text.includes("\n") ? "" : `${at}s  `}${line}\n`);
  };
  const world = await startWorld({
    port,
    progress: say,
    ...(values.logs ? { onLog: (line: string) => say(line) } : {}),
  });
  let closed: Promise<void> | null = null;
  const close = (): Promise<void> => (closed ??= world.close());
  let interrupted = false;
  const stop = new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.on(signal, () => {
        interrupted = true;
        resolve();
      });
    }
  });
  say(`status page: ${world.worker.url}/`);
  say(`local GitHub: ${world.github.url}/${OWNER}/${NAME}`);
  // Only for a world that stays: the token is worth nothing in any other, and ends with this one.
  if (!values.once) say(operatorHint(world));
  try {
    const day = play(world, say, values["crash-worker"]);
    const result = await Promise.race([day, stop.then(() => null)]);
    if (result === null) return 130;
    if (!values.once) {
      say(`the world stays up: ${world.worker.url}/  (Ctrl-C ends it)`);
      say(wordList());
      await byHand(world, say, process.stdin, stop);
      return 0;
    }
    return result;
  } finally {
    if (interrupted) say("ending");
    await close();
  }
}

async function play(world: World, say: (text: string) => void, crashWorker: boolean): Promise<number> {
  const { rows, problems } = await playOpeningDay({ world, say, crashWorker });
  say("");
  say(dayTable(rows));
  say("");
  if (problems.length === 0) {
    say("every verdict is the expected one, every pod is proven gone, every estimate fits RunPod's bill");
    return 0;
  }
  for (const problem of problems) say(`NOT RIGHT: ${problem}`);
  return 1;
}

process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`npm start: ${error instanceof Error ? error.message : String(error)}\n`);
  return 1;
});
process.exit();
