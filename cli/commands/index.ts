/** The commands of `gpu-gate`, in the order the help lists them. One line each; each command is a file of its own. */
import type { Command } from "../command.ts";

export const commands: readonly Command[] = [];
