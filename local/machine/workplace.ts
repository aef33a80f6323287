/**
 * The folder and the environment of one job on one machine, and how one of its steps is performed there.
 *
 * Used by the hosted machines of the local GitHub and by the stand-in runner on a rented one.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { performAction, type ActionOutcome } from "./actions.ts";
import { runCommand, signalGroup, type CommandOutcome } from "./command.ts";
import type { Services } from "./services.ts";
import { annotationsIn, readPairs } from "./workflow-commands.ts";
import type { JobFacts, Places, StepDone, StepWork } from "./work.ts";

export interface WorkplaceOptions {
  readonly facts: JobFacts;
  /** The machine's folder for jobs; the workspace and the temporary folder are made in it. */
  readonly root: string;
  /** What the machine's own environment gives a step. */
  readonly inherited: Readonly<Record<string, string>>;
  readonly services: Services;
  readonly ownSession?: boolean;
  /** Ends whatever runs at once. */
  readonly killed?: AbortSignal;
  readonly onOutput?: (chunk: Buffer) => void;
  /** Told each process group as it starts. */
  readonly onGroup?: (group: number) => void;
  /** Ends a process group; by default with a signal to the group alone. */
  readonly endGroup?: (group: number) => void;
}

/** Where a step leaves what it has to say. */
const FILES = {
  GITHUB_ENV: "env",
  GITHUB_OUTPUT: "output",
  GITHUB_PATH: "path",
  GITHUB_STEP_SUMMARY: "summary",
} as const;

/** Every variable that the machine itself sets for a step, beside those of the server. For the documents. */
export const MACHINE_VARIABLES: readonly string[] = [
  "CI",
  "GITHUB_ACTIONS",
  "GITHUB_EVENT_PATH",
  "GITHUB_WORKSPACE",
  "RUNNER_TEMP",
  ...Object.keys(FILES),
  "PATH",
  "HOME",
];

export class Workplace {
  readonly places: Places;
  readonly #options: WorkplaceOptions;
  readonly #groups: number[] = [];
  /** Folders that steps put first on PATH, the newest first. */
  #paths: readonly string[] = [];

  constructor(options: WorkplaceOptions) {
    this.#options = options;
    const repository = options.facts.repository.split("/").at(-1) ?? "repository";
    this.places = { workspace: join(options.root, repository, repository), temp: join(options.root, "_temp") };
    mkdirSync(this.places.workspace, { recursive: true });
    mkdirSync(join(this.places.temp, "_commands"), { recursive: true });
    writeFileSync(this.#file("event.json"), `${JSON.stringify(options.facts.event ?? {})}\n`);
  }

  /** Ends what the steps left running. */
  close(): void {
    const end = this.#options.endGroup ?? ((group: number) => signalGroup(group, "SIGKILL"));
    for (const group of this.#groups) end(group);
  }

  /** The whole environment of a step that brings `step` along. */
  env(step: Readonly<Record<string, string>>): Record<string, string> {
    const { inherited, facts } = this.#options;
    const path = step["PATH"] ?? inherited["PATH"] ?? "";
    const files = Object.entries(FILES).map(([name, file]) => [name, this.#file(file)] as const);
    return {
      ...inherited,
      ...facts.variables,
      CI: "true",
      GITHUB_ACTIONS: "true",
      GITHUB_EVENT_PATH: this.#file("event.json"),
      GITHUB_WORKSPACE: this.places.workspace,
      RUNNER_TEMP: this.places.temp,
      ...Object.fromEntries(files),
      ...step,
      PATH: [...this.#paths, path].join(":"),
    };
  }

  /** Runs `bash <argv>` in the workspace. */
  command(
    argv: readonly string[],
    env: Readonly<Record<string, string>>,
    cancelled: AbortSignal,
    more: { readonly cwd?: string; readonly timeoutMs?: number | null } = {},
  ): Promise<CommandOutcome> {
    const { ownSession = false, killed, onOutput, onGroup } = this.#options;
    return runCommand(argv, {
      cwd: more.cwd ?? this.places.workspace,
      env: this.env(env),
      cancelled,
      timeoutMs: more.timeoutMs ?? null,
      ownSession,
      ...(killed === undefined ? {} : { killed }),
      ...(onOutput === undefined ? {} : { onOutput }),
      onGroup: (group) => {
        this.#groups.push(group);
        onGroup?.(group);
      },
    });
  }

  async perform(work: StepWork, cancelled: AbortSignal): Promise<StepDone> {
    const { killed } = this.#options;
    const stopped = killed === undefined ? cancelled : AbortSignal.any([cancelled, killed]);
    const done = { index: work.index, env: {}, summary: "" };
    if (work.kind === "run") return this.#run(work, cancelled);
    const tools: Readonly<Record<string, string>> = {
      PATH: this.env({})["PATH"] ?? "",
      HOME: this.places.temp,
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
    };
    const toolEnv = tools as NodeJS.ProcessEnv;
    const result: ActionOutcome = await performAction(
      work,
      {
        facts: this.#options.facts,
        places: this.places,
        services: this.#options.services,
        toolEnv,
      },
      stopped,
    );
    return { ...done, ...result };
  }

  async #run(work: Extract<StepWork, { kind: "run" }>, cancelled: AbortSignal): Promise<StepDone> {
    for (const file of Object.values(FILES)) writeFileSync(this.#file(file), "");
    const script = join(this.places.temp, `step-${work.index}.sh`);
    writeFileSync(script, work.script);
    const cwd = resolve(this.places.workspace, work.workingDirectory ?? ".");
    const failed = (message: string): StepDone => ({
      index: work.index,
      outcome: "failure",
      outputs: {},
      env: {},
      annotations: [{ title: null, message, level: "failure" }],
      log: `${message}\n`,
      summary: "",
    });
    if (!existsSync(cwd)) return failed(`The working directory '${work.workingDirectory ?? "."}' is not there.`);
    // `bash -e` where no shell is named; a named bash adds more. Source: GitHub's documentation of `jobs.<id>.steps[*].shell`.
    const flags = work.pipefail ? ["--noprofile", "--norc", "-eo", "pipefail"] : ["-e"];
    const timeoutMs = work.timeoutMinutes === null ? null : work.timeoutMinutes * 60_000;
    const result = await this.command([...flags, script], work.env, cancelled, { cwd, timeoutMs });
    rmSync(script, { force: true });
    const outputs = readPairs(this.#read("output"));
    const env = readPairs(this.#read("env"));
    for (const pairs of [outputs, env])
      if (!pairs.ok) return failed(`Unable to process file command: ${pairs.problem}`);
    const paths = this.#read("path")
      .split("\n")
      .filter((line) => line !== "");
    this.#paths = [...paths.toReversed(), ...this.#paths];
    const annotations = annotationsIn(result.output);
    const message = `The action '${work.name}' has timed out after ${work.timeoutMinutes ?? 0} minutes.`;
    if (result.timedOut) annotations.push({ title: null, message, level: "failure" });
    return {
      index: work.index,
      outcome: result.outcome,
      outputs: outputs.ok ? outputs.values : {},
      env: env.ok ? env.values : {},
      annotations,
      log: result.timedOut ? `${result.output}${message}\n` : result.output,
      summary: this.#read("summary"),
    };
  }

  #file(name: string): string {
    return join(this.places.temp, "_commands", name);
  }

  #read(name: string): string {
    return existsSync(this.#file(name)) ? readFileSync(this.#file(name), "utf8") : "";
  }
}
