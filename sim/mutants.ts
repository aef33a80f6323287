/**
 * `node sim/mutants.ts [name ...]`: the simulator must catch bugs. Each mutant is one wrong line in the product, made in a
 * copy of the tree; its seeds are run until a checker objects. A mutant that survives its seeds, or whose line is no longer
 * there, fails the run. `--help` lists the options.
 */
import { availableParallelism } from "node:os";
import process from "node:process";
import { MUTANTS } from "./mutant-list.ts";
import { tryMutant, type Outcome } from "./mutant-trial.ts";
import { misused, numberOf, optionsOf, type Command } from "./options.ts";

const COMMAND: Command = {
  name: "npm run sim:mutants",
  usage: `npm run sim:mutants -- [options] [name ...]

  --list      names only
  --seeds N   most seeds for each, instead of its own number
  --jobs N    so many at a time (one for each core)
`,
};

const { values, positionals } = optionsOf(COMMAND, {
  allowPositionals: true,
  options: { list: { type: "boolean", default: false }, seeds: { type: "string" }, jobs: { type: "string" } },
});
const strange = positionals.filter((name) => !MUTANTS.some((mutant) => mutant.name === name));
if (strange.length > 0) misused(COMMAND, `there is no mutant called ${strange.join(", ")}; --list names them all.`);
const atMost = values.seeds === undefined ? null : numberOf(COMMAND, "seeds", values.seeds, { least: 1 });
const jobs = values.jobs === undefined ? availableParallelism() : numberOf(COMMAND, "jobs", values.jobs, { least: 1 });
if (values.list) {
  for (const mutant of MUTANTS) console.log(mutant.name);
} else {
  const chosen = MUTANTS.filter((mutant) => positionals.length === 0 || positionals.includes(mutant.name));
  const outcomes: Outcome[] = [];
  const waiting = [...chosen];
  const work = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const outcome = await tryMutant(mutant, atMost ?? mutant.seeds);
      outcomes.push(outcome);
      const { verdict, seconds, how } = outcome;
      const name = mutant.name.padEnd(30);
      console.log(`${verdict.padEnd(8)} ${name} ${mutant.kind.padEnd(10)} ${seconds.toFixed(0).padStart(4)} s  ${how}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  const bad = outcomes.filter((outcome) => outcome.verdict !== "caught");
  console.log(`${outcomes.length - bad.length} of ${outcomes.length} mutants caught`);
  process.exitCode = bad.length === 0 ? 0 : 1;
}
