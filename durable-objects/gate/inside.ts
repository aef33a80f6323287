/**
 * What the parts of one gate share: its database, its ports, and a few questions that several of them ask.
 */
import type { RepositoryConfig } from "../../shared/config/schema.ts";
import type { QueueInfo } from "../../shared/lifecycle/check-view.ts";
import type { GateRequest } from "../../shared/lifecycle/model.ts";
import { answersOf, groupAnswersOf, heardFrom, type Asking } from "../../shared/lifecycle/needs-answer.ts";
import type { Actor } from "../../shared/lifecycle/signal.ts";
import type { AuditNote } from "../../shared/lifecycle/step.ts";
import type { GitHubClient } from "../../shared/github/client.ts";
import { Aggregates } from "./aggregates.ts";
import { Forecast } from "./forecast.ts";
import type { Registrar } from "./left-runners.ts";
import type { GatePorts, Sql } from "./ports.ts";
import { Secrets } from "./secrets.ts";
import { Store } from "./store.ts";

/** Until a configuration is known: the last so many runs tell what a waiter may expect. */
const ETA_RUNS = 20;

export class Inside {
  readonly ports: GatePorts;
  readonly store: Store;
  readonly aggregates: Aggregates;
  readonly secrets = new Secrets();
  readonly #forecast: Forecast;

  constructor(ports: GatePorts) {
    this.store = new Store(ports.sql);
    const sql = forgetting(ports.sql, this.store);
    this.ports = { ...ports, sql };
    this.aggregates = new Aggregates(sql, this.store);
    this.#forecast = new Forecast(sql);
  }

  audit(requestId: string | null, note: AuditNote): void {
    this.store.audit(this.ports.clock.now(), requestId, note);
  }

  /** The configuration that was read last; null before the first. */
  lastConfig(): RepositoryConfig | null {
    const hash = this.store.meta("last_config");
    return hash === null ? null : this.store.config(hash);
  }

  /** What was said of a head to its pull requests and still may be an answer, oldest first. */
  answersAt(headSha: string): readonly GateRequest[] {
    return answersOf(headSha, (head, kind) => this.store.requestsOfHead(head, kind), this.lastConfig()?.shadow);
  }

  /** The same of a merge group's commit. */
  groupAnswersAt(headSha: string): readonly GateRequest[] {
    return groupAnswersOf(headSha, (head, kind) => this.store.requestsOfHead(head, kind), this.lastConfig()?.shadow);
  }

  /** Who is known to have caused a pull request at this head, also by what is no answer any more; null: nobody. */
  heardAt(headSha: string, asking: Asking): Actor | null {
    return heardFrom(
      answersOf(headSha, (head, kind) => this.store.requestsOfHead(head, kind)),
      asking,
    );
  }

  /** Where a request stands in the queue, and what it may expect. */
  queueInfo(requestId: string): QueueInfo {
    const lock = this.store.lock();
    const place = this.store.placeInQueue(requestId);
    const runs = this.lastConfig()?.check.eta_runs ?? ETA_RUNS;
    return {
      place,
      waiting: this.store.queueLength(),
      holder: lock.holder,
      ...this.#forecast.expect(place, lock, runs, this.ports.clock.now()),
    };
  }

  /** GitHub for the repository as it was named last, with runners in the scope that this request's configuration names. */
  github(request: GateRequest | null, background = false): GitHubClient {
    return this.#githubAs(this.store.config(request?.terms?.configHash ?? ""), background);
  }

  /** The same with runners in the scope of the newest configuration, giving way to all else; null while none is known. */
  registrar(): Registrar | null {
    const config = this.lastConfig();
    if (config === null) return null;
    const { owner, name } = this.#known().repository;
    const at = config.runner.scope === "organization" ? `orgs/${owner}` : `repos/${owner}/${name}`;
    return { github: this.#githubAs(config, true), at };
  }

  #githubAs(config: RepositoryConfig | null, background: boolean): GitHubClient {
    const { repository, installationId } = this.#known();
    const scope =
      config?.runner.scope === "organization"
        ? ({ kind: "organization", org: repository.owner, groupId: config.runner.group_id } as const)
        : ({ kind: "repository" } as const);
    return this.ports.github(repository, installationId, scope, background);
  }

  /** Everything that performing a task of this request needs. */
  outside(requestId: string) {
    return {
      ports: this.ports,
      store: this.store,
      secrets: this.secrets,
      repository: this.#known().repository,
      github: this.github(this.store.request(requestId)),
      queueInfo: (id: string) => this.queueInfo(id),
    };
  }

  #known() {
    const known = this.store.repository();
    if (known === null) throw new Error("this gate does not know its repository yet");
    return known;
  }
}

/** The database, with a store that forgets what it remembered where a transaction fails. */
function forgetting(sql: Sql, store: Store): Sql {
  return {
    exec: (query, ...bindings) => sql.exec(query, ...bindings),
    transaction: (body) => {
      try {
        return sql.transaction(body);
      } catch (error) {
        store.forget();
        throw error;
      }
    },
  };
}
