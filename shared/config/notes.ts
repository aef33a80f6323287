/**
 * What a valid configuration means that its writer may not expect: no mistake, and yet something will not happen. Told by
 * `gpu-gate config check` and `gpu-gate doctor`; nothing is refused for it.
 *
 * Of prices only those are known that a person reviewed (`default-tiers.ts`); for every other GPU the limit stands that the
 * configuration sets. So a sentence says "will" where a reviewed price decides, and "may" where the market does.
 */
import { DEFAULT_TIERS, diskUsdPerHour } from "../runpod/default-tiers.ts";
import { nearestName } from "./issues.ts";
import type { RepositoryConfig } from "./schema.ts";

export interface Note {
  /** The key that it is about, such as `budget.per_run`. */
  readonly key: string;
  /** What it means and what to write instead, in full sentences. */
  readonly say: string;
}

export function configNotes(config: RepositoryConfig): readonly Note[] {
  return [
    ...pathNotes(config),
    ...gpuNotes(config),
    ...moneyNotes(config),
    ...proofNotes(config),
    ...aggregatorNotes(config),
  ];
}

/** Paths and folders are compared letter by letter; what looks like a pattern is a name that no file has, and its files are code. */
function pathNotes({ paths, lanes }: RepositoryConfig): readonly Note[] {
  const sets = [
    ...Object.entries(paths).map(([name, set]) => [`paths.${name}`, set] as const),
    ...Object.entries(lanes).flatMap(([name, lane]) => [
      [`lanes.${name}.control`, lane.control] as const,
      [`lanes.${name}.hosted_only`, lane.hosted_only] as const,
    ]),
  ];
  return sets.flatMap(([place, set]) =>
    Object.entries(set).flatMap(([key, entries]): Note[] => {
      const odd = entries.filter((entry) => /[*?]/.test(entry));
      const [first] = odd;
      if (first === undefined) return [];
      const more = odd.length === 1 ? "" : ` ${odd.length - 1} more like it.`;
      const say = `\`${first}\` is taken letter by letter: \`*\` and \`?\` mean nothing here, and it matches no file.${more} Name a folder with all below it in \`prefixes\` (\`docs/\`), single files in \`files\`; \`gpu-gate explain PATH\` tells what a path is.`;
      return [{ key: `${place}.${key}`, say }];
    }),
  );
}

const KNOWN_GPUS: readonly string[] = DEFAULT_TIERS.flatMap(({ gpuIds }) => gpuIds);

/** RunPod has more GPUs than this list, so an unknown id may be right; a wrong one is answered like one that is sold out. */
function gpuNotes({ gpu }: RepositoryConfig): readonly Note[] {
  const plain = (id: string): string => id.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
  return gpu.tiers.flatMap(({ gpu_ids: ids }, index) =>
    ids
      .filter((id) => !KNOWN_GPUS.includes(id))
      .map((id): Note => {
        const within = KNOWN_GPUS.find((known) => plain(known).includes(plain(id)));
        const nearest = within ?? nearestName(id, KNOWN_GPUS);
        const meant = nearest === null ? "" : ` Did you mean \`${nearest}\`?`;
        const say = `\`${id}\` is not among the GPUs that this version knows.${meant} RunPod answers an id that it does not have as if it were sold out; \`gpu-gate doctor\` compares with its catalog.`;
        return { key: `gpu.tiers.${index}.gpu_ids`, say };
      }),
  );
}

/** The gate's own check always reports, so that it must says nothing about whether anybody's CI ran. */
function aggregatorNotes({ aggregator, required_checks: checks, check: own }: RepositoryConfig): readonly Note[] {
  const { name, registration_grace: grace } = aggregator;
  const reports = checks.some(({ name: one, report }) => report === "must" && one !== own.name);
  if (name === null || checks.length === 0 || reports) return [];
  const say = `No check of a workflow has to report. Where no workflow starts at all (a commit message with [skip ci], a conflict, a fork's run that waits for approval), all of them are absent, and \`${name}\` is green after ${grace} s. Write \`report: must\` at one that reports for every change.`;
  return [{ key: "required_checks", say }];
}

function proofNotes({ gpu }: RepositoryConfig): readonly Note[] {
  if (Object.keys(gpu.nvrtc).length > 0) return [];
  const say =
    "It is empty, so a pod proves its GPU by what the driver says of it (name, memory, CUDA version, no memory errors) and runs no kernel before it registers. The check says so. `docs/pod.md` tells how to name the NVRTC that a kernel is compiled with.";
  return [{ key: "gpu.nvrtc", say }];
}

/** A price of a whole pod that a plan may reserve at. */
interface Price {
  readonly usdPerHour: number;
  /** Where it comes from, as part of a sentence. */
  readonly of: string;
}

const REVIEWED: ReadonlyMap<string, number> = new Map(
  DEFAULT_TIERS.flatMap((tier) => Object.entries(tier.reviewedUsdPerHour ?? {})),
);

/**
 * The dearest reviewed price among the configured GPUs, which every plan that has the GPU reserves at or above, and the
 * highest limit, which none exceeds. Null: no configured GPU has a reviewed price within its limit.
 */
function pricesOf(config: RepositoryConfig): { readonly sure: Price | null; readonly most: Price } {
  const { tiers, price_ceiling_usd_per_hour: ceiling, disk_gb: diskGb } = config.gpu;
  let sure: Price | null = null;
  let most: Price = { usdPerHour: 0, of: "" };
  for (const { name, gpu_ids: ids, max_usd_per_hour: own } of tiers) {
    const limit = Math.min(own ?? ceiling, ceiling);
    if (limit > most.usdPerHour) most = { usdPerHour: limit, of: `a GPU of tier \`${name}\` at its limit` };
    for (const id of ids) {
      const listed = REVIEWED.get(id);
      if (listed === undefined || listed > limit) continue;
      const usdPerHour = Math.min(limit, listed + diskUsdPerHour(diskGb));
      if (sure === null || usdPerHour > sure.usdPerHour) sure = { usdPerHour, of: `${id} at its reviewed price` };
    }
  }
  return { sure, most };
}

/** The cap that the first attempt of a request meets first. */
function tightestCap(config: RepositoryConfig): { readonly key: string; readonly usd: number } {
  const caps = Object.entries(config.budget).flatMap(([name, usd]) =>
    usd === null ? [] : [{ key: `budget.${name}`, usd }],
  );
  return caps.reduce((least, cap) => (cap.usd < least.usd ? cap : least));
}

function moneyNotes(config: RepositoryConfig): readonly Note[] {
  const cap = tightestCap(config);
  if (cap.usd === 0) return [{ key: cap.key, say: "It is 0: no GPU is ever rented." }];
  const { sure, most } = pricesOf(config);
  const seconds = config.limits.reservation;
  const attemptAt = (price: Price): number => reserved(price.usdPerHour, seconds);
  const reserves = (price: Price): string =>
    `An attempt reserves ${seconds} s at the dearest price of its plan, whichever GPU it gets: ${dollars(attemptAt(price))} for ${price.of} (${dollars(price.usdPerHour)} an hour)`;
  if (sure !== null && attemptAt(sure) > cap.usd) {
    const say = `${reserves(sure)}, and \`${cap.key}\` is ${cap.usd}. While that GPU is for rent every run ends over-budget and nothing is rented. Write ${dollarsUp(attemptAt(sure))} or more, or take the dear GPUs out of \`gpu.tiers\`.`;
    return [{ key: cap.key, say }];
  }
  const notes: Note[] = [];
  if (attemptAt(most) > cap.usd) {
    const fits = dollarsDown((cap.usd * 3600) / seconds);
    const say = `${reserves(most)}, and \`${cap.key}\` is ${cap.usd}. Runs end over-budget while any GPU of the plan costs more than USD ${fits} an hour, or its price is not known. Write ${dollarsUp(attemptAt(most))} or more, or set \`gpu.price_ceiling_usd_per_hour: ${fits}\`, which leaves out the dearer ones.`;
    notes.push({ key: cap.key, say });
  }
  // Whoever asks for one keeping is answered then; here only what would be kept of itself is looked at.
  const keeping = config.retention.keep_on_failure ? keepingNote(config, config.retention.duration) : null;
  return [...notes, ...capNotes(config), ...(keeping === null ? [] : [keeping])];
}

/** A cap over a longer time that is below one over a shorter: the narrower is never reached. */
function capNotes({ budget }: RepositoryConfig): readonly Note[] {
  const pairs = [
    ["per_run", "per_day"],
    ["per_day", "per_month"],
  ] as const;
  return pairs.flatMap(([short, long]): Note[] => {
    if (budget[short] <= budget[long]) return [];
    const say = `It is ${budget[short]}, and \`budget.${long}\` is ${budget[long]}: that one is met first, so this one never counts.`;
    return [{ key: `budget.${short}`, say }];
  });
}

/**
 * The minutes of a keeping are reserved beside the attempt, or the pod is not kept: why a keeping of `wished` seconds will or
 * may find no room. Null: it always has.
 */
export function keepingNote(config: RepositoryConfig, wished: number): Note | null {
  const cap = tightestCap(config);
  const { sure, most } = pricesOf(config);
  const { reservation } = config.limits;
  const duration = Math.min(wished, config.retention.max_retention);
  const both = (price: Price): number => reserved(price.usdPerHour, reservation + duration);
  const certain = sure !== null && both(sure) > cap.usd;
  const price = certain ? sure : most;
  if (both(price) <= cap.usd) return null;
  const fits = Math.floor((cap.usd * 3600) / price.usdPerHour - reservation);
  const less = fits >= 60 ? `, ask for ${Math.floor(fits / 60)} minutes or fewer` : "";
  const say = `Keeping a pod for ${duration} s reserves its time beside the attempt's: together ${dollars(both(price))} for ${price.of}, and \`${cap.key}\` is ${cap.usd}. ${
    certain
      ? "While that GPU is for rent no pod is kept for so long"
      : "With a plan as dear as that no pod is kept for so long"
  }, and the check says so. Write ${dollarsUp(both(price))} or more there${less}, or take the dear GPUs out of \`gpu.tiers\`.`;
  return { key: "retention.duration", say };
}

/** USD that a pod at this price reserves for so many seconds. */
function reserved(usdPerHour: number, seconds: number): number {
  return (usdPerHour * seconds) / 3600;
}

function dollars(amount: number): string {
  return `USD ${amount.toFixed(2)}`;
}

/** A number to write into the file that is surely enough, in whole cents. */
function dollarsUp(amount: number): string {
  return (Math.ceil(amount * 100) / 100).toFixed(2);
}

function dollarsDown(amount: number): string {
  return (Math.floor(amount * 100) / 100).toFixed(2);
}
