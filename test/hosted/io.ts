/** Runs the real command line in process with captured output. */
import { main } from "../../cli/main.ts";
import type { Io } from "../../cli/command.ts";
import { said } from "../support/said.ts";

export interface Answer {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function gpuGate(args: readonly string[], overrides: Partial<Io> = {}): Promise<Answer> {
  let out = "";
  let err = "";
  const io: Io = {
    stdout(text) {
      said("standard output", text);
      out += text;
    },
    stderr(text) {
      said("standard error", text);
      err += text;
    },
    stdin: async () => new Uint8Array(),
    env: {},
    cwd: "/",
    fetch: async (input) => new Response(`no answer for ${input}`, { status: 599 }),
    now: () => Date.parse("2026-10-01T00:00:00Z"),
    ...overrides,
  };
  const code = await main(args, io);
  return { code, out, err };
}
