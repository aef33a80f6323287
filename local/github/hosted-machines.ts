/**
 * GitHub-hosted machines: a fresh folder per job, its commands real child processes in sessions of their own, everything
 * gone when the job ends.
 *
 * A hosted machine starts with nothing but PATH and HOME. Its programs are this machine's, with the Node of this project
 * first, and in front of them whatever `programs` holds. If the whole process dies, a guard ends what the jobs started.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ProcessGuard, killGroup } from "../process-guard.ts";
import { Services, type AskService } from "../machine/services.ts";
import { playSteps, type JobConclusion, type NextAsk, type NextStep, type JobFacts } from "../machine/work.ts";
import { Workplace } from "../machine/workplace.ts";

/** Where Ubuntu's own programs are. */
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface HostedOptions {
  /** Folder for the machines, made when first needed. Absent: one below the system's temporary folder. */
  readonly folder?: string;
  /** A folder of programs that the image has and this machine may lack. */
  readonly programs?: string;
}

export interface HostedJob {
  /** Unique among the jobs. */
  readonly id: number;
  readonly facts: JobFacts;
  readonly ask: AskService;
  readonly next: (ask: NextAsk) => NextStep;
  /** A polite end: the running command is interrupted, what always runs still runs. */
  readonly cancelled: AbortSignal;
  /** An end without a word. */
  readonly killed: AbortSignal;
}

export class HostedMachines {
  readonly #options: HostedOptions;
  readonly #running = new Set<Promise<unknown>>();
  readonly #guard = new ProcessGuard();
  readonly #closed = new AbortController();
  #folder: string | null = null;

  constructor(options: HostedOptions) {
    this.#options = options;
  }

  /** Runs a job to its end on a machine of its own. */
  async run(job: HostedJob): Promise<JobConclusion> {
    const work = this.#work(job);
    this.#running.add(work);
    try {
      return await work;
    } finally {
      this.#running.delete(work);
    }
  }

  /** Ends every job and removes every machine. */
  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.allSettled(this.#running);
    await this.#guard.close();
    if (this.#folder !== null) rmSync(this.#folder, { recursive: true, force: true });
  }

  async #work(job: HostedJob): Promise<JobConclusion> {
    const root = join(this.#home(), `job-${job.id}`);
    mkdirSync(join(root, "home"), { recursive: true });
    const groups = new Set<number>();
    this.#guard.start();
    const killed = AbortSignal.any([job.killed, this.#closed.signal]);
    const place = new Workplace({
      facts: job.facts,
      root: join(root, "work"),
      inherited: { PATH: this.#path(), HOME: join(root, "home") },
      services: new Services(job.ask),
      ownSession: true,
      killed,
      onGroup: (group) => {
        groups.add(group);
        this.#guard.watch(group);
      },
      endGroup: (group) => killGroup(group, "SIGKILL"),
    });
    try {
      return await playSteps({
        places: place.places,
        next: (ask) => Promise.resolve(killed.aborted ? { kind: "ended", conclusion: "cancelled" } : job.next(ask)),
        perform: (work, cancelled) => place.perform(work, cancelled),
        cancelled: job.cancelled,
      });
    } finally {
      place.close();
      for (const group of groups) this.#guard.forget(group);
      rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
    }
  }

  #home(): string {
    if (this.#folder !== null) return this.#folder;
    const { folder } = this.#options;
    this.#folder = folder ?? mkdtempSync(join(tmpdir(), "local-github-"));
    mkdirSync(join(this.#folder, "bin"), { recursive: true });
    const node = join(this.#folder, "bin", "node");
    if (!existsSync(node)) symlinkSync(process.execPath, node);
    return this.#folder;
  }

  #path(): string {
    const { programs } = this.#options;
    return [...(programs === undefined ? [] : [programs]), join(this.#home(), "bin"), SYSTEM_PATH].join(":");
  }
}
