/**
 * The local GitHub: a real HTTP server on 127.0.0.1 that keeps GitHub's rules as far as this product meets them.
 *
 * It is started by the local world and by tests; `rules.ts` lists each rule, the fact it rests on and the test that holds it.
 */

import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../shared/ports.ts";
import { MARK, minted } from "../minted.ts";
import { Credentials } from "./auth.ts";
import { emptyBooks } from "./books.ts";
import type { Books } from "./books.ts";
import { install, InstallationControl } from "./control-installation.ts";
import type { InstallOptions } from "./control-installation.ts";
import { registerRunner, RepositoryControl } from "./control-repository.ts";
import type { RunnerControl } from "./control-repository.ts";
import { Engine } from "./engine.ts";
import { Faults } from "./faults.ts";
import type { Files } from "./git.ts";
import { GitStore } from "./git.ts";
import { defaultTiming } from "./hub.ts";
import type { HostedOptions } from "./hosted-machines.ts";
import { HostedMachines } from "./hosted-machines.ts";
import type { Hub, Timing } from "./hub.ts";
import { IdentityTokens } from "./identity.ts";
import { Links } from "./links.ts";
import type { Repository, RunnerGroup } from "./model.ts";
import { World } from "./model.ts";
import { commitTo } from "./pulls.ts";
import { RateLimit } from "./rate-limit.ts";
import { actionRoutes } from "./routes-actions.ts";
import { appRoutes } from "./routes-app.ts";
import { artifactRoutes } from "./routes-artifacts.ts";
import { checkRoutes } from "./routes-checks.ts";
import { contentRoutes } from "./routes-contents.ts";
import { pullRoutes } from "./routes-pulls.ts";
import { releaseRoutes } from "./routes-releases.ts";
import { repositoryRoutes } from "./routes-repository.ts";
import { runnerRoutes } from "./routes-runners.ts";
import { RunnerDesk } from "./runner-desk.ts";
import { Schedules } from "./schedules.ts";
import { ApiServer } from "./server.ts";
import { Timers } from "./timers.ts";
import { Webhooks } from "./webhooks.ts";
import type { WorkflowScript } from "./workflow-script.ts";

export type { Books } from "./books.ts";
export type { RepositoryControl } from "./control-repository.ts";
export type { WorkflowScript, WorkflowPlan, JobPlan, StepPlan, RunContext } from "./workflow-script.ts";
export { githubRules } from "./rules.ts";

export interface LocalGitHubOptions {
  /** 0 or absent: any free port. */
  readonly port?: number;
  readonly clock?: Clock;
  /** Added to every REST answer. */
  readonly latencyMs?: number;
  /** Every other wait; see `Timing`. */
  readonly timing?: Partial<Timing>;
  /** Where webhooks go; null or absent sends none until `webhooks.configure`. */
  readonly webhookUrl?: string | null;
  readonly webhookSecret: string;
  /** Keeps the App's key here, so that a restarted local GitHub is the same App. */
  readonly stateDir?: string;
  readonly appId?: number;
  readonly appSlug?: string;
  readonly permissions?: Readonly<Record<string, "read" | "write">>;
  readonly events?: readonly string[];
  /** Where hosted jobs run, and which programs their image has. */
  readonly hosted?: HostedOptions;
}

export interface CreateRepository {
  readonly owner: string;
  readonly name: string;
  readonly id?: number;
  readonly private?: boolean;
  readonly defaultBranch?: string;
  readonly files?: Files;
  /** The owner is an organisation: runners and groups live there too. */
  readonly organization?: boolean;
  /** The App is installed on the owner, silently. True unless said otherwise. */
  readonly installed?: boolean;
}

export interface LocalGitHub {
  /** REST base address, without a slash at the end. */
  readonly url: string;
  readonly appId: string;
  readonly appSlug: string;
  /** PKCS#1, as GitHub hands it out. */
  readonly privateKeyPem: string;
  readonly books: Books;
  readonly faults: Faults;
  readonly rateLimit: RateLimit;
  readonly webhooks: Webhooks;
  createRepository(input: CreateRepository): RepositoryControl;
  /** A repository by `owner/name`. Throws when there is none. */
  repository(name: string): RepositoryControl;
  /** Installs the App on an account and tells the App so. */
  install(owner: string, options?: InstallOptions): InstallationControl;
  /** The account's installation. Throws when there is none. */
  installation(owner: string): InstallationControl;
  /** From now on the script stands in for the text of the workflow file at that path, which is interpreted otherwise. */
  setWorkflowScript(path: string, script: WorkflowScript): void;
  /** A user account with a chosen id; made at first use otherwise. */
  user(login: string, id?: number): { login: string; id: number };
  /** The login changes, the id stays: logins can be renamed and reused. */
  renameUser(login: string, to: string): void;
  registerOrganizationRunner(
    org: string,
    input: { name: string; labels: readonly string[]; online?: boolean; version?: string; groupId?: number },
  ): RunnerControl;
  createRunnerGroup(
    org: string,
    input: Pick<RunnerGroup, "name"> & Partial<Omit<RunnerGroup, "id" | "organization" | "default" | "name">>,
  ): number;
  /** Every installation token issued so far stops working. */
  expireTokens(): void;
  /**
   * Starts what is scheduled for any minute since the last look at the clock, and gives the runs' ids. The local GitHub does
   * this by itself every second; a test that moves the clock need not wait for that.
   */
  runSchedules(): readonly number[];
  /** Sends a past event again: same guid. False when it is not known. */
  redeliver(guid: string): boolean;
  close(): Promise<void>;
}

/** What the product's App asks for at installation. */
const defaultPermissions = {
  metadata: "read",
  contents: "read",
  pull_requests: "read",
  actions_variables: "read",
  actions: "write",
  checks: "write",
  statuses: "write",
  issues: "write",
  merge_queues: "read",
  administration: "write",
  organization_self_hosted_runners: "write",
} as const;

const defaultEvents = [
  "pull_request",
  "workflow_run",
  "workflow_job",
  "check_run",
  "check_suite",
  "merge_group",
  "issue_comment",
  "push",
  "repository",
];

const routes = [
  ...appRoutes,
  ...repositoryRoutes,
  ...releaseRoutes,
  ...pullRoutes,
  ...checkRoutes,
  ...contentRoutes,
  ...actionRoutes,
  ...artifactRoutes,
  ...runnerRoutes,
];

/** The routes served, as `METHOD path` of the OpenAPI document. */
export interface ServedRoute {
  readonly method: string;
  readonly path: string;
  readonly operation: string;
  /** Any one of these is enough; none: no permission is needed. */
  readonly permission: readonly string[];
}

export const servedRoutes: readonly ServedRoute[] = routes.map((route) => ({
  method: route.method,
  path: route.path.replaceAll("*}", "}"),
  operation: route.operation,
  permission: route.permission ?? [],
}));

const KEY_FILE = "github-app.pem";

function storedKey(stateDir: string | undefined): string | undefined {
  const file = stateDir === undefined ? undefined : join(stateDir, KEY_FILE);
  return file !== undefined && existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

export async function startLocalGitHub(options: LocalGitHubOptions): Promise<LocalGitHub> {
  const clock = options.clock ?? { now: () => Date.now() };
  const world = new World(clock);
  const books = emptyBooks();
  const appId = options.appId ?? 1234;
  const clientId = "Iv23localgpugate";
  let url = "";
  const credentials = new Credentials(world, String(appId), clientId, storedKey(options.stateDir), () => url);
  if (options.stateDir !== undefined) {
    mkdirSync(options.stateDir, { recursive: true });
    writeFileSync(join(options.stateDir, KEY_FILE), credentials.privateKeyPem, { mode: 0o600 });
  }
  const self = (): Hub => hub;
  const server = new ApiServer(self, routes);
  const hub: Hub = {
    world,
    books,
    timers: new Timers((problem) => books.problems.push(problem)),
    timing: {
      ...defaultTiming,
      ...options.timing,
      ...(options.latencyMs === undefined ? {} : { latencyMs: options.latencyMs }),
    },
    app: {
      id: appId,
      slug: options.appSlug ?? "gpu-gate",
      name: options.appSlug ?? "gpu-gate",
      clientId,
      owner: world.ensureAccount("gpu-gate-owner"),
      events: new Set(options.events ?? defaultEvents),
      permissions: options.permissions ?? defaultPermissions,
    },
    credentials,
    webhooks: new Webhooks(self, options.webhookUrl ?? null, options.webhookSecret),
    faults: new Faults(),
    rateLimit: new RateLimit(clock),
    engine: new Engine(self, new Links(clock, () => url), new HostedMachines(options.hosted ?? {})),
    identity: new IdentityTokens(self),
    desk: new RunnerDesk(self),
    get url() {
      return url;
    },
  };
  url = `http://127.0.0.1:${await server.listen(options.port ?? 0)}`;
  minted(credentials.privateKeyPem, { file: KEY_FILE });
  const schedules = new Schedules(self);
  schedules.start();
  return new Running(hub, server, schedules);
}

class Running implements LocalGitHub {
  readonly #hub: Hub;
  readonly #server: ApiServer;
  readonly #schedules: Schedules;

  constructor(hub: Hub, server: ApiServer, schedules: Schedules) {
    this.#schedules = schedules;
    this.#hub = hub;
    this.#server = server;
  }

  get url(): string {
    return this.#hub.url;
  }
  get appId(): string {
    return String(this.#hub.app.id);
  }
  get appSlug(): string {
    return this.#hub.app.slug;
  }
  get privateKeyPem(): string {
    return this.#hub.credentials.privateKeyPem;
  }
  get books(): Books {
    return this.#hub.books;
  }
  get faults(): Faults {
    return this.#hub.faults;
  }
  get rateLimit(): RateLimit {
    return this.#hub.rateLimit;
  }
  get webhooks(): Webhooks {
    return this.#hub.webhooks;
  }

  createRepository(input: CreateRepository): RepositoryControl {
    const { world } = this.#hub;
    if (world.repository(input.owner, input.name) !== undefined)
      throw new Error(`${input.owner}/${input.name} exists already`);
    const owner = world.ensureAccount(input.owner, input.organization === true ? "Organization" : "User");
    if (owner.type === "Organization" && !world.runnerGroups.some((group) => group.organization.id === owner.id)) {
      world.runnerGroups.push({
        ...blankGroup,
        id: 1,
        organization: owner,
        name: "Default",
        default: true,
        visibility: "all",
      });
    }
    const repository: Repository = {
      id: input.id ?? world.nextId("repository", 700_000_000),
      owner,
      name: input.name,
      private: input.private ?? false,
      fork: null,
      defaultBranch: input.defaultBranch ?? "main",
      archived: false,
      deleted: false,
      createdAt: world.clock.now(),
      git: new GitStore(),
      refs: new Map(),
      collaborators: new Map(),
      variables: new Map(),
      secrets: new Map(),
      environments: new Map(),
      workflows: new Map(),
      pulls: [],
      comments: [],
      labels: new Map(),
      statuses: [],
      branchRules: new Map(),
      protections: new Map(),
      releases: [],
      approveForkRuns: false,
    };
    world.repositories.set(repository.id, repository);
    const changes = input.files ?? { "README.md": `# ${input.name}\n` };
    commitTo(this.#hub, repository, repository.defaultBranch, { changes, author: owner, message: "First commit" });
    if (input.installed !== false) install(this.#hub, owner, {}, false);
    return new RepositoryControl(this.#hub, repository);
  }

  repository(name: string): RepositoryControl {
    const [owner = "", short = ""] = name.split("/");
    const repository = this.#hub.world.repository(owner, short);
    if (repository === undefined) throw new Error(`there is no repository ${name}`);
    return new RepositoryControl(this.#hub, repository);
  }

  install(owner: string, options: InstallOptions = {}): InstallationControl {
    return new InstallationControl(this.#hub, install(this.#hub, this.#hub.world.ensureAccount(owner), options, true));
  }

  installation(owner: string): InstallationControl {
    const account = this.#hub.world.account(owner);
    const found = [...this.#hub.world.installations.values()].find(
      (one) => one.account.id === account?.id && !one.deleted,
    );
    if (found === undefined) throw new Error(`the App is not installed on ${owner}`);
    return new InstallationControl(this.#hub, found);
  }

  setWorkflowScript(path: string, script: WorkflowScript): void {
    this.#hub.engine.catalog.setScript(path, script);
  }

  user(login: string, id?: number): { login: string; id: number } {
    const account = this.#hub.world.ensureAccount(login, "User", id);
    return { login: account.login, id: account.id };
  }

  renameUser(login: string, to: string): void {
    const { accounts } = this.#hub.world;
    const account = this.#hub.world.ensureAccount(login);
    accounts.delete(login.toLowerCase());
    account.login = to;
    accounts.set(to.toLowerCase(), account);
  }

  registerOrganizationRunner(
    org: string,
    input: Parameters<LocalGitHub["registerOrganizationRunner"]>[1],
  ): RunnerControl {
    return registerRunner(
      this.#hub,
      { kind: "organization", id: this.#hub.world.ensureAccount(org, "Organization").id },
      input,
    );
  }

  createRunnerGroup(org: string, input: Parameters<LocalGitHub["createRunnerGroup"]>[1]): number {
    const { world } = this.#hub;
    const organization = world.ensureAccount(org, "Organization");
    const id = world.nextId(`runner group ${organization.id}`, 1);
    world.runnerGroups.push({ ...blankGroup, ...input, id, organization, default: false });
    return id;
  }

  expireTokens(): void {
    this.#hub.credentials.revokeAll();
  }

  redeliver(guid: string): boolean {
    return this.#hub.webhooks.redeliver({ guid });
  }

  runSchedules(): readonly number[] {
    return this.#schedules.look();
  }

  async close(): Promise<void> {
    this.#hub.timers.close();
    this.#hub.webhooks.close();
    await this.#hub.engine.close();
    await this.#server.close();
  }
}

const blankGroup = {
  visibility: "all" as const,
  repositories: [],
  allowsPublicRepositories: true,
  restrictedToWorkflows: false,
  selectedWorkflows: [],
};

/** A secret fit for a webhook, for whoever starts a local GitHub without one. */
export function newWebhookSecret(): string {
  return minted(`${MARK}${randomBytes(24).toString("hex")}`, "nobody");
}
