/** `gpu-gate tail`: the live audit, from the Worker's own log. */
import process from "node:process";
import { parseArgs } from "node:util";
import { JsonStream, tailLines } from "../../shared/audit/tail.ts";
import { EXIT_OK, type Command } from "../command.ts";

const usage = `
wrangler tail --format json | gpu-gate tail

Prints each audit entry of the stream as one line: when, repository and number, request, what was done, the reason code,
the facts it rested on and the reason in words. Exceptions of the Worker are shown too; other log lines are not.
`;

/** Pieces of text as they arrive: a live stream has no end to wait for, so the command does not use `Io.stdin`. */
export type TextSource = () => AsyncIterable<string>;

export function tailCommandFrom(source: TextSource): Command {
  return {
    name: "tail",
    summary: "Read the Worker's log stream as a live audit",
    usage,
    run: async (args, io) => {
      parseArgs({ args: [...args], options: {} });
      const stream = new JsonStream();
      for await (const piece of source()) {
        for (const event of stream.push(piece)) {
          for (const line of tailLines(event)) io.stdout(`${line}\n`);
        }
      }
      return EXIT_OK;
    },
  };
}

async function* standardInput(): AsyncIterable<string> {
  const decoder = new TextDecoder();
  for await (const chunk of process.stdin) yield decoder.decode(chunk as Uint8Array, { stream: true });
}

export const tailCommand: Command = tailCommandFrom(standardInput);
