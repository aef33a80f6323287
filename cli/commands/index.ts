/** The commands of `gpu-gate`, in the order the help lists them. One line each; each command is a file of its own. */
import type { Command } from "../command.ts";
import { evidenceCommand } from "./evidence.ts";
import { partitionCommand } from "./partition.ts";

export const commands: readonly Command[] = [partitionCommand, evidenceCommand];
