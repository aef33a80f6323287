/** The App's installations, on order: installed, narrowed, suspended, removed, given other permissions. */

import type { Hub } from "./hub.ts";
import type { Account, Installation } from "./model.ts";
import { fullName } from "./model.ts";
import { nodeId, renderAccount } from "./render-common.ts";

export interface InstallOptions {
  /** `owner/name` each, or all of the account. */
  readonly repositories?: "all" | readonly string[];
  readonly permissions?: Readonly<Record<string, "read" | "write">>;
}

export class InstallationControl {
  readonly #hub: Hub;
  readonly #installation: Installation;

  constructor(hub: Hub, installation: Installation) {
    this.#hub = hub;
    this.#installation = installation;
  }

  get id(): number {
    return this.#installation.id;
  }

  suspend(): void {
    this.#installation.suspendedAt = this.#hub.world.clock.now();
    this.#tell("installation", "suspend", {});
  }

  unsuspend(): void {
    this.#installation.suspendedAt = null;
    this.#tell("installation", "unsuspend", {});
  }

  uninstall(): void {
    this.#installation.deleted = true;
    this.#tell("installation", "deleted", { repositories: this.#repositories() });
  }

  /** Permissions as a maintainer accepted them; what a token holds beyond these is worth nothing from now on. */
  /** Takes permissions away, as an owner does who declines them. */
  withhold(...names: readonly string[]): void {
    const left = Object.entries(this.#installation.permissions).filter(([name]) => !names.includes(name));
    this.setPermissions(Object.fromEntries(left));
  }

  setPermissions(permissions: Readonly<Record<string, "read" | "write">>): void {
    this.#installation.permissions = { ...permissions };
    this.#tell("installation", "new_permissions_accepted", {});
  }

  addRepository(name: string): void {
    const repository = this.#named(name);
    this.#installation.repositories ??= new Set();
    this.#installation.repositories.add(repository.id);
    this.#tell("installation_repositories", "added", { ...this.#change([listed(repository)], []) });
  }

  removeRepository(name: string): void {
    const repository = this.#named(name);
    const all = [...this.#hub.world.repositories.values()].filter(
      (one) => one.owner.id === this.#installation.account.id,
    );
    this.#installation.repositories ??= new Set(all.map((one) => one.id));
    this.#installation.repositories.delete(repository.id);
    this.#tell("installation_repositories", "removed", { ...this.#change([], [listed(repository)]) });
  }

  #change(added: unknown[], removed: unknown[]): Record<string, unknown> {
    return {
      repository_selection: "selected",
      repositories_added: added,
      repositories_removed: removed,
      requester: null,
    };
  }

  #named(name: string) {
    const [owner = "", short = ""] = name.split("/");
    const repository = this.#hub.world.repository(owner, short);
    if (repository === undefined) throw new Error(`there is no repository ${name}`);
    return repository;
  }

  #repositories(): unknown[] {
    const { repositories, account } = this.#installation;
    return [...this.#hub.world.repositories.values()]
      .filter((one) => one.owner.id === account.id && (repositories === null || repositories.has(one.id)))
      .map(listed);
  }

  #tell(event: string, action: string, parts: Record<string, unknown>): void {
    const sender = renderAccount(this.#hub, this.#installation.account);
    this.#hub.webhooks.emitInstallation(event, action, this.#installation, sender, parts);
  }
}

function listed(repository: Parameters<typeof fullName>[0]): Record<string, unknown> {
  const { id, name } = repository;
  return { id, node_id: nodeId("Repository", id), name, full_name: fullName(repository), private: repository.private };
}

/** Installs the App on an account. One installation per account, as on GitHub. */
export function install(hub: Hub, account: Account, options: InstallOptions, tell: boolean): Installation {
  const { world, app } = hub;
  const known = [...world.installations.values()].find((one) => one.account.id === account.id && !one.deleted);
  if (known !== undefined) return known;
  const { repositories = "all" } = options;
  const ids =
    repositories === "all"
      ? null
      : new Set(
          [...world.repositories.values()].filter((one) => repositories.includes(fullName(one))).map((one) => one.id),
        );
  const installation: Installation = {
    id: world.nextId("installation", 45_000_000),
    account,
    repositories: ids,
    permissions: { ...(options.permissions ?? app.permissions) },
    createdAt: world.clock.now(),
    suspendedAt: null,
    deleted: false,
  };
  world.installations.set(installation.id, installation);
  if (tell) {
    const mine = [...world.repositories.values()].filter(
      (one) => one.owner.id === account.id && (ids === null || ids.has(one.id)),
    );
    hub.webhooks.emitInstallation("installation", "created", installation, renderAccount(hub, account), {
      repositories: mine.map(listed),
    });
  }
  return installation;
}
