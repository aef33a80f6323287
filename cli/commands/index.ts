/** The commands of `gpu-gate`, in the order the help lists them. One line each; each command is a file of its own. */
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

export const commands: readonly Command[] = [
  classifyCommand,
  explainCommand,
  configCommand,
  archiveCommand,
  archiveKeyCommand,
  payloadCommand,
  runtimeCommand,
  partitionCommand,
  evidenceCommand,
  runnerPinCommand,
  lintCommand,
  doctorCommand,
  sweepCommand,
  recoverCommand,
  validateCommand,
  statusCommand,
  queueCommand,
  costsCommand,
  pauseCommand,
  resumeCommand,
  retainCommand,
  operatorCommand,
  probeCommand,
  lanesCommand,
  auditCommand,
  tailCommand,
];
