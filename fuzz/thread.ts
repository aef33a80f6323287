/** The thread in which one target runs; `watched.ts` starts it. */
import { performance } from "node:perf_hooks";
import process from "node:process";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parentPort, workerData } from "node:worker_threads";
import { corpusOf } from "./corpus.ts";
import { judgeOne, newTally, replay, runSeed, type Finding } from "./run.ts";
import type { Target } from "./target.ts";
import { CaseBoard, type Task, type Word } from "./watched.ts";

const { task, buffer } = workerData as { readonly task: Task; readonly buffer: SharedArrayBuffer };
const board = new CaseBoard(buffer);
const { targets } = (await import(task.module)) as { readonly targets: readonly Target[] };
const target = targets.find((one) => one.name === task.target);
if (target === undefined) throw new Error(`there is no target ${task.target}`);

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function heap(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

function say(word: Word): void {
  // oxlint-disable-next-line require-post-message-target-origin -- a port between threads, not a window
  parentPort?.postMessage(word);
}

/** Cases between two looks at the heap and the clock. */
const CHUNK = 250;
const until = task.forMs === null ? Infinity : performance.now() + task.forMs;
const tally = newTally();
const session = await target.open();
let finding: Finding | null = null;
let kept = 0;
let heapFirst = 0;
let heapLast = 0;

if (task.only === undefined) {
  const corpus = corpusOf(target.name);
  finding = await replay(target, session, corpus, tally, board);
  kept = corpus.length;
  let done = 0;
  for (let chunk = 0; finding === null && done < task.cases && performance.now() < until; chunk += 1) {
    const cases = Math.min(task.forMs === null ? CHUNK : 25, CHUNK, task.cases - done);
    finding = await runSeed(target, session, { seed: task.seed + chunk, cases, tally, watch: board });
    done += cases;
    heapLast = heap();
    if (heapFirst === 0) heapFirst = heapLast;
    say({ kind: "progress", tally });
  }
} else {
  const given: unknown = JSON.parse(task.only);
  const wrong = await judgeOne(session, given, tally, board);
  if (wrong !== null) finding = { target: target.name, what: wrong, given, seed: null };
}
await session.close();
say({ kind: "done", report: { target: target.name, tally, kept, finding, heapFirst, heapLast } });
