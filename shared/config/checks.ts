/**
 * Rules over several keys: what is well formed key by key and still contradicts itself. Each finding names the key to
 * change and how. Order of the rules does not matter; all of them are looked at.
 */
import { CONFIG_PATH, type Lane, type RepositoryConfig } from "./schema.ts";
import { isH100Class, MIN_CUDA_VERSION } from "../runpod/default-tiers.ts";
import { LANE_NAME } from "./schema-parts.ts";
import { waitFindings } from "./wait-checks.ts";

export interface Finding {
  readonly path: readonly PropertyKey[];
  /** Whether the key or its value is what is wrong. */
  readonly at: "key" | "value";
  readonly message: string;
  readonly fix: string;
}

/** The lowest CUDA version whose driver can run what we stage. */
const CUDA_FLOOR = MIN_CUDA_VERSION.split(".").map(Number);

export function crossChecks(config: RepositoryConfig): Finding[] {
  return [
    ...gpuFindings(config),
    ...limitFindings(config),
    ...laneFindings(config),
    ...ownerFindings(config),
    ...nameFindings(config),
    ...waitFindings(config),
    ...workflowFindings(config),
  ];
}

/** What each workflow is started for. In this order: the later of two that name one file is the one to change. */
const WORKFLOW_ROLES = {
  prepare: "prepares with a pull request's code",
  execute: "runs on the rented machine",
  recovery: "asks for a pull request",
  validation: "asks for one commit",
  trigger: "is started by pull requests",
  cache_publisher: "saves caches that others trust",
} as const;

type WorkflowRole = keyof typeof WORKFLOW_ROLES;

/** CI may well be what publishes the caches of the default branch; every other pair contradicts itself. */
const SHARED_FILES: readonly string[] = ["trigger cache_publisher"];

/**
 * One file in two parts. Tokens of prepare and execute never open requests, so a recovery or validation there is refused at
 * every call; a trigger that only we start never starts by itself; what runs a pull request's code may not save caches.
 */
function workflowFindings({ workflows }: RepositoryConfig): Finding[] {
  const found: Finding[] = [];
  const seen = new Map<string, WorkflowRole>();
  for (const role of Object.keys(WORKFLOW_ROLES) as WorkflowRole[]) {
    const file = workflows[role];
    const other = seen.get(file);
    if (other !== undefined && !SHARED_FILES.includes(`${other} ${role}`)) {
      found.push(
        finding(
          ["workflows", role],
          `\`${file}\` is also \`workflows.${other}\`, which ${WORKFLOW_ROLES[other]}: it cannot be the one that ${WORKFLOW_ROLES[role]}`,
          "Give each its own file.",
        ),
      );
    }
    if (other === undefined) seen.set(file, role);
  }
  return found;
}

function finding(path: readonly PropertyKey[], message: string, fix: string, at: "key" | "value" = "value"): Finding {
  return { path, at, message, fix };
}

function gpuFindings(config: RepositoryConfig): Finding[] {
  const found: Finding[] = [];
  const seen = new Map<string, string>();
  const tierNames = new Set<string>();
  for (const [index, tier] of config.gpu.tiers.entries()) {
    const path = ["gpu", "tiers", index];
    if (tierNames.has(tier.name)) {
      found.push(finding([...path, "name"], `two tiers are called \`${tier.name}\``, "Give each tier its own name."));
    }
    tierNames.add(tier.name);
    for (const [place, id] of tier.gpu_ids.entries()) {
      if (isH100Class(id)) {
        found.push(
          finding(
            [...path, "gpu_ids", place],
            `\`${id}\` is of the H100 class, which is never rented`,
            "Remove it; an A100 SXM is the largest.",
          ),
        );
      }
      const other = seen.get(id);
      if (other !== undefined) {
        found.push(
          finding([...path, "gpu_ids", place], `\`${id}\` is already in tier \`${other}\``, "Keep it in one tier."),
        );
      }
      seen.set(id, tier.name);
    }
    if (tier.max_usd_per_hour !== null && tier.max_usd_per_hour > config.gpu.price_ceiling_usd_per_hour) {
      found.push(
        finding(
          [...path, "max_usd_per_hour"],
          "this is above `gpu.price_ceiling_usd_per_hour`",
          `Write ${config.gpu.price_ceiling_usd_per_hour} or less.`,
        ),
      );
    }
  }
  found.push(...nvrtcFindings(config));
  for (const [index, version] of config.gpu.cuda_versions.entries()) {
    const [major = 0, minor = 0] = version.split(".").map(Number);
    const [floor = 0, floorMinor = 0] = CUDA_FLOOR;
    if (major < floor || (major === floor && minor < floorMinor)) {
      const message = `CUDA ${version} is below the floor ${MIN_CUDA_VERSION}`;
      found.push(finding(["gpu", "cuda_versions", index], message, "Remove it."));
    }
  }
  return found;
}

/** Half a map buys pods that refuse themselves: the driver, which nobody knows before, decides which NVRTC is asked for. */
function nvrtcFindings({ gpu }: RepositoryConfig): Finding[] {
  const has = (version: "12.6" | "12.8"): boolean => gpu.nvrtc[version] !== undefined;
  if (!has("12.6") && !has("12.8")) return [];
  return (["12.6", "12.8"] as const).flatMap((version) => {
    const drivers = gpu.cuda_versions.filter((driver) => nvrtcFor(driver) === version);
    if (has(version) || drivers.length === 0) return [];
    const message = `NVRTC ${version} is missing, which pods with a driver of CUDA ${drivers.join(", ")} need: each would be bought and refused`;
    const fix = `Add \`${version}\`, or take these out of \`gpu.cuda_versions\`, or leave \`gpu.nvrtc\` out: then no kernel is run.`;
    return [finding(["gpu", "nvrtc"], message, fix)];
  });
}

/** Which NVRTC a pod with this driver takes, as `pod/start.sh` decides it. */
function nvrtcFor(driver: string): "12.6" | "12.8" {
  const [major = 0, minor = 0] = driver.split(".").map(Number);
  return major > 12 || (major === 12 && minor >= 8) ? "12.8" : "12.6";
}

function limitFindings(config: RepositoryConfig): Finding[] {
  const found: Finding[] = [];
  const { limits, retention } = config;
  const atMost = (section: string, low: string, lowValue: number, high: string, highValue: number): void => {
    if (lowValue <= highValue) return;
    const message = `${lowValue} s is more than \`${section}.${high}\` (${highValue} s)`;
    found.push(finding([section, low], message, `Lower \`${low}\` or raise \`${high}\`.`));
  };
  atMost("limits", "backoff_base", limits.backoff_base, "backoff_cap", limits.backoff_cap);
  atMost("limits", "no_machine", limits.no_machine, "acceptance", limits.acceptance);
  atMost("limits", "setup", limits.setup, "lifetime", limits.lifetime);
  atMost("limits", "acceptance", limits.acceptance, "backstop", limits.backstop);
  atMost("limits", "lifetime", limits.lifetime, "backstop", limits.backstop);
  atMost("limits", "delete_pause_base", limits.delete_pause_base, "delete_pause_cap", limits.delete_pause_cap);
  atMost("retention", "duration", retention.duration, "max_retention", retention.max_retention);
  const { margin, default_timeout: timeout } = config.merge_queue;
  if (margin >= timeout) {
    const message = `${margin} s leave nothing of \`merge_queue.default_timeout\` (${timeout} s): every group would time out at once`;
    found.push(finding(["merge_queue", "margin"], message, "Lower `margin` or raise `default_timeout`."));
  }
  const paid = limits.acceptance + limits.lifetime;
  if (limits.reservation < paid) {
    found.push(
      finding(
        ["limits", "reservation"],
        `${limits.reservation} s reserve less than an attempt may cost: acceptance and lifetime are ${paid} s`,
        `Write ${paid} or more, or lower \`lifetime\`.`,
      ),
    );
  }
  return found;
}

/** Paths that steer the paid lane whatever the file says: the configuration itself and the two trusted workflows. */
export function builtInDeviceControl(config: Pick<RepositoryConfig, "workflows">): string[] {
  return [CONFIG_PATH, config.workflows.prepare, config.workflows.execute];
}

function laneFindings(config: RepositoryConfig): Finding[] {
  const found: Finding[] = [];
  for (const [name, lane] of Object.entries(config.lanes)) {
    const path = ["lanes", name];
    if (!LANE_NAME.test(name)) {
      found.push(
        finding(
          path,
          `\`${name}\` cannot be a lane's name`,
          "Use lower case letters, digits and _, a letter first.",
          "key",
        ),
      );
    }
    if (name === "gpu" && lane.own !== null) {
      found.push(
        finding(
          [...path, "own"],
          "the lane `gpu` is the rented one",
          "Give your own machine a lane of another name.",
          "key",
        ),
      );
    }
    const required = name === "gpu" ? builtInDeviceControl(config) : [];
    found.push(...overlapFindings(name, lane, required), ...reachFindings(config, name, lane));
  }
  return found;
}

/** A path that both asks for the lane and never asks for it: whoever reads one list believes the wrong thing. */
function overlapFindings(name: string, lane: Lane, builtIn: readonly string[]): Finding[] {
  const found: Finding[] = [];
  const asking = [...lane.control.files, ...lane.control.prefixes];
  for (const kind of ["files", "prefixes"] as const) {
    for (const [index, entry] of lane.hosted_only[kind].entries()) {
      const path = ["lanes", name, "hosted_only", kind, index];
      const clash = asking.find((other) => covers(entry, other) || covers(other, entry));
      if (clash !== undefined) {
        found.push(
          finding(
            path,
            `\`${entry}\` overlaps \`${clash}\` in this lane's \`control\``,
            "Keep it in one of the two sets.",
          ),
        );
      }
      const fixed = builtIn.find((other) => covers(entry, other));
      if (fixed !== undefined) {
        found.push(finding(path, `\`${fixed}\` always counts as device control`, "Take it out of `hosted_only`."));
      }
    }
  }
  return found;
}

/** Entries that can never have an effect, and lanes whose light class has no path at all. */
function reachFindings(config: RepositoryConfig, name: string, lane: Lane): Finding[] {
  const found: Finding[] = [];
  const light = {
    docs: [...config.paths.docs.files, ...config.paths.docs.prefixes],
    ci: [...config.paths.ci.files, ...config.paths.ci.prefixes],
  };
  for (const [index, asker] of lane.asked_by.entries()) {
    if (light[asker].length === 0) {
      found.push(
        finding(
          ["lanes", name, "asked_by", index],
          `lane \`${name}\` is never reached by \`${asker}\`: no path is in \`paths.${asker}\``,
          `Fill \`paths.${asker}\` or remove this.`,
        ),
      );
    }
  }
  const all = [...light.docs, ...light.ci];
  for (const set of ["control", "hosted_only"] as const) {
    for (const kind of ["files", "prefixes"] as const) {
      for (const [index, entry] of lane[set][kind].entries()) {
        if (all.some((other) => covers(other, entry) || covers(entry, other))) continue;
        found.push(
          finding(
            ["lanes", name, set, kind, index],
            `\`${entry}\` never reaches lane \`${name}\` from here: it is in neither \`paths.ci\` nor \`paths.docs\`, so it is code and asks for everything`,
            "Add it to `paths.ci` or remove it here.",
          ),
        );
      }
    }
  }
  return found;
}

/** Whether every path that `entry` matches is also matched by `cover`. Prefixes end with `/`. */
function covers(cover: string, entry: string): boolean {
  return cover.endsWith("/") ? entry.startsWith(cover) : cover === entry;
}

function ownerFindings(config: RepositoryConfig): Finding[] {
  const found: Finding[] = [];
  const owners = new Map<string, string>([[config.check.name, "the gate itself"]]);
  if (config.aggregator.name !== null) {
    const clash = owners.get(config.aggregator.name);
    if (clash !== undefined) {
      found.push(
        finding(
          ["aggregator", "name"],
          `check \`${config.aggregator.name}\` already belongs to ${clash}`,
          "Choose another name.",
        ),
      );
    }
    owners.set(config.aggregator.name, "the aggregator");
  }
  const labelSets = new Map<string, string>();
  for (const [name, lane] of Object.entries(config.lanes)) {
    for (const [index, check] of lane.checks.entries()) {
      const owner = owners.get(check);
      if (owner !== undefined) {
        found.push(
          finding(
            ["lanes", name, "checks", index],
            `check \`${check}\` already belongs to ${owner}`,
            "A check has one owner; remove it from one.",
          ),
        );
      }
      owners.set(check, `lane \`${name}\``);
    }
    if (lane.own === null) continue;
    const labels = lane.own.runs_on.map((label) => label.toLowerCase()).sort();
    const key = labels.join(" ");
    const other = labelSets.get(key);
    if (other !== undefined) {
      found.push(
        finding(
          ["lanes", name, "own", "runs_on"],
          `this label set already belongs to lane \`${other}\``,
          "Give each lane its own label set.",
        ),
      );
    }
    labelSets.set(key, name);
  }
  return found;
}

function nameFindings(config: RepositoryConfig): Finding[] {
  const found: Finding[] = [];
  const twice = (path: readonly PropertyKey[], names: readonly string[], what: string, key?: string): void => {
    for (const [index, name] of names.entries()) {
      if (names.indexOf(name) === index) continue;
      const place = key === undefined ? [...path, index] : [...path, index, key];
      found.push(finding(place, `${what} \`${name}\` is listed twice`, "Keep one of the two."));
    }
  };
  twice(
    ["required_checks"],
    config.required_checks.map((check) => check.name),
    "check",
    "name",
  );
  twice(
    ["costs", "stages"],
    config.costs.stages.map((stage) => stage.stage),
    "stage",
    "stage",
  );
  twice(["pre_gate"], config.pre_gate, "check");
  twice(["merge_queue", "pre_gate"], config.merge_queue.pre_gate, "check");
  twice(["evidence", "test_steps"], config.evidence.test_steps, "step");
  for (const [index, check] of config.required_checks.entries())
    twice(["required_checks", index, "waits_for"], check.waits_for, "check");
  return found;
}
