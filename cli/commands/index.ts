/** The commands of `gpu-gate`, by what they are for, in the order the help lists them. Each command is a file of its own. */
import type { Command } from "../command.ts";
import { classifyCommand } from "./classify.ts";
import { configCommand } from "./config.ts";
import { archiveCommand } from "./archive.ts";
import { archiveKeyCommand } from "./archive-key.ts";
import { evidenceCommand } from "./evidence.ts";
import { explainCommand } from "./explain.ts";
import { lintCommand } from "./lint.ts";
import { doctorCommand } from "./doctor.ts";
import { sweepCommand } from "./sweep.ts";
import { partitionCommand } from "./partition.ts";
import { payloadCommand } from "./payload.ts";
import { runnerPinCommand } from "./runner-pin.ts";
import { runtimeCommand } from "./runtime.ts";
import { operatorCommand } from "./operate.ts";
import { probeCommand } from "./probe.ts";
import { recoverCommand } from "./recover.ts";
import { validateCommand } from "./validate.ts";
import { queueCommand, statusCommand } from "./status.ts";
import { lanesCommand } from "./lanes.ts";
import { costsCommand } from "./costs.ts";
import { pauseCommand, resumeCommand, retainCommand } from "./operator.ts";
import { auditCommand } from "./audit.ts";
import { tailCommand } from "./tail.ts";

/** Commands for one purpose, under the heading that the help gives them. */
export interface CommandGroup {
  readonly title: string;
  readonly commands: readonly Command[];
}

export const groups: readonly CommandGroup[] = [
  {
    title: "Set up a repository",
    commands: [configCommand, lintCommand, classifyCommand, doctorCommand, runnerPinCommand],
  },
  {
    title: "See what happens and what it costs",
    commands: [statusCommand, queueCommand, explainCommand, costsCommand, lanesCommand, probeCommand, tailCommand],
  },
  {
    title: "Step in",
    commands: [pauseCommand, resumeCommand, operatorCommand, retainCommand, recoverCommand, validateCommand],
  },
  {
    title: "Check and clean up",
    commands: [sweepCommand, auditCommand],
  },
  {
    title: "Called by the workflow files",
    commands: [archiveCommand, archiveKeyCommand, payloadCommand, runtimeCommand, partitionCommand, evidenceCommand],
  },
];

export const commands: readonly Command[] = groups.flatMap((group) => group.commands);
