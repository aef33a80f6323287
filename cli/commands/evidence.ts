/** `gpu-gate evidence`: prints the one annotation that proves how many tests a job ran. */
import { parseArgs } from "node:util";
import { EXIT_NO, EXIT_OK, UsageError, type Command, type Io } from "../command.ts";
import { readText } from "../files.ts";
import type { Result } from "../../shared/result.ts";
import {
  evidenceFromJUnit,
  evidenceFromNextest,
  evidenceNotice,
  explainEvidenceError,
  makeEvidence,
  EVIDENCE_SHELL,
  type Evidence,
  type EvidenceError,
} from "../../shared/hosted/evidence.ts";

const usage = `
gpu-gate evidence --nextest LOG | --junit FILE | --tests N --duration-ms N | --shell

Prints one notice annotation with the number of tests that ran and how long they took. The gate turns green only with it.

  --nextest      adds up the 'Summary' lines of all nextest runs in a log ('-' reads standard input)
  --junit        counts the cases of a JUnit file that were not skipped
  --tests, --duration-ms
                 numbers from elsewhere: whole, at least one test
  --shell        prints the bash that does the same as --nextest with LOG set, for machines without Node

Exit codes: 0 printed, 1 there is no evidence (nothing ran, not everything passed), 2 wrong call.
`;

export const evidenceCommand: Command = {
  name: "evidence",
  summary: "Print the annotation with a job's test count and duration",
  usage,
  run: async (args, io) => {
    const { values } = parseArgs({
      args: [...args],
      options: {
        nextest: { type: "string" },
        junit: { type: "string" },
        tests: { type: "string" },
        "duration-ms": { type: "string" },
        shell: { type: "boolean", default: false },
      },
    });
    if (values.shell) {
      io.stdout(`${EVIDENCE_SHELL}\n`);
      return EXIT_OK;
    }
    const evidence = await gather(values, io);
    if (!evidence.ok) {
      io.stderr(`gpu-gate evidence: ${explainEvidenceError(evidence.error)}.\n`);
      return EXIT_NO;
    }
    io.stdout(`${evidenceNotice(evidence.value)}\n`);
    return EXIT_OK;
  },
};

interface Sources {
  readonly nextest?: string | undefined;
  readonly junit?: string | undefined;
  readonly tests?: string | undefined;
  readonly "duration-ms"?: string | undefined;
}

async function gather(sources: Sources, io: Io): Promise<Result<Evidence, EvidenceError>> {
  const { nextest, junit, tests, "duration-ms": durationMs } = sources;
  const numbers = tests !== undefined || durationMs !== undefined;
  if ([nextest !== undefined, junit !== undefined, numbers].filter(Boolean).length !== 1)
    throw new UsageError("Give exactly one source: --nextest, --junit, or --tests with --duration-ms.");
  if (nextest !== undefined) return evidenceFromNextest(await readText(io, nextest, "The log"));
  if (junit !== undefined) return evidenceFromJUnit(await readText(io, junit, "The JUnit file"));
  return makeEvidence(wholeNumber(tests, "--tests"), wholeNumber(durationMs, "--duration-ms"));
}

function wholeNumber(text: string | undefined, option: string): number {
  if (text === undefined || !/^\d{1,9}$/.test(text))
    throw new UsageError(`${option} needs a whole number of at most nine digits.`);
  return Number(text);
}
