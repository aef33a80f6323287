/**
 * Ownership tags: the words in a pod's environment that say whose pod it is, and the pure check that reads them.
 *
 * RunPod has no labels, so the tags travel in `env`, which list and get return in clear (runpod-facts quirk 22): they hold
 * facts only, never a secret. A pod is ours when its id is in our ledger, or when every tag is present, names our
 * deployment and agrees with the pod's name. Anything less is reported and left alone: the account may hold other people's
 * pods, and another deployment's pods have their own reaper.
 */
import { unreachable } from "../result.ts";

/** Who bought a pod and for what. All values are text; ids keep every digit. */
export interface OwnershipIdentity {
  readonly deployment: string;
  readonly repositoryId: string;
  readonly requestId: string;
  readonly attemptId: string;
  /** The workflow run this pod was bought for. */
  readonly runId: string;
  /** "true" when a maintainer asked to keep a failed pod for debugging, else "false". */
  readonly keep: string;
}

export type TagNames = { readonly [Field in keyof OwnershipIdentity]: string };

const FIELDS = ["deployment", "repositoryId", "requestId", "attemptId", "runId", "keep"] as const;

/** The tag names under a prefix: `GPU_GATE_` gives `GPU_GATE_DEPLOYMENT`, `GPU_GATE_REPOSITORY_ID` and so on. */
export function tagNames(prefix = "GPU_GATE_"): TagNames {
  return {
    deployment: `${prefix}DEPLOYMENT`,
    repositoryId: `${prefix}REPOSITORY_ID`,
    requestId: `${prefix}REQUEST`,
    attemptId: `${prefix}ATTEMPT`,
    runId: `${prefix}RUN_ID`,
    keep: `${prefix}KEEP`,
  };
}

export const GPU_GATE_TAGS: TagNames = tagNames();

/**
 * The tags for a pod. A missing or empty value gives no tags at all (`{}`): half-tagged is worse than untagged, because
 * somebody would believe it. `names` may cover a part of the fields; only those are written and demanded.
 */
export function ownershipTags(
  identity: { readonly [Field in keyof OwnershipIdentity]?: string | undefined },
  names: Partial<TagNames> = GPU_GATE_TAGS,
): Readonly<Record<string, string>> {
  const tags: Record<string, string> = {};
  for (const field of FIELDS) {
    const name = names[field];
    if (name === undefined) continue;
    const value = identity[field];
    // `keep` is a word of its own: whatever was asked is written down, the reader refuses what it does not know.
    if (value === undefined || (value === "" && field !== "keep")) return {};
    tags[name] = value;
  }
  return tags;
}

/** Longest value of a tag we write; what is longer was not written by us. */
const MAX_TAG_LENGTH = 200;

/**
 * The part of a pod's environment that may travel on: our own tags, by name. Everything else (JIT config, nonces, other
 * people's secrets) stops at the boundary.
 */
export function tagsFromEnv(env: unknown, names: TagNames = GPU_GATE_TAGS): Readonly<Record<string, string>> {
  const tags: Record<string, string> = {};
  if (typeof env !== "object" || env === null) return tags;
  for (const name of Object.values(names)) {
    const value: unknown = Object.hasOwn(env, name) ? Reflect.get(env, name) : undefined;
    if (typeof value === "string" && value.length <= MAX_TAG_LENGTH) tags[name] = value;
  }
  return tags;
}

/** Every pod name of ours starts so; the rest is the deployment and the attempt. */
export const POD_NAME_PREFIX = "gpu-gate-";

/** The runner carries the pod's name, and GitHub takes 64 characters for a runner's; RunPod v1 took 191, v2 states no limit. */
export const MAX_POD_NAME_LENGTH = 64;

/**
 * The pod's name: one per attempt, never used twice, so that an ambiguous create can be looked up by it (RunPod has no
 * idempotency key and its names are not unique). Repositories of one deployment share an account and number their requests
 * alike, so the repository is part of it. Characters outside `[A-Za-z0-9._-]` become `-`.
 *
 * What does not fit is cut in the middle and made up for by a hash of all of it: two names are never alike by being cut.
 */
export function podName(identity: Pick<OwnershipIdentity, "deployment" | "repositoryId" | "attemptId">): string {
  const { deployment, repositoryId, attemptId } = identity;
  const plain = (text: string): string => text.replaceAll(/[^A-Za-z0-9._-]/g, "-");
  const whole = `${POD_NAME_PREFIX}${plain(deployment)}-${plain(repositoryId)}-${plain(attemptId)}`;
  if (whole.length <= MAX_POD_NAME_LENGTH) return whole;
  const mark = `-${hash(JSON.stringify([deployment, repositoryId, attemptId]))}-`;
  const end = plain(attemptId).slice(-MAX_ATTEMPT_LENGTH);
  return whole.slice(0, MAX_POD_NAME_LENGTH - mark.length - end.length) + mark + end;
}

/** Longest attempt id that is kept whole; ours are a request's id (request-id.ts), `-` and a number below a hundred. */
const MAX_ATTEMPT_LENGTH = 24;

/** FNV-1a over UTF-16, two rounds of 32 bits: tells names apart, keeps no secret. */
function hash(text: string): string {
  const round = (seed: number): string => {
    let value = seed;
    for (let index = 0; index < text.length; index += 1) value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
    return (value >>> 0).toString(16).padStart(8, "0");
  };
  return round(0x811c9dc5) + round(0x9747b28c);
}

export type Ownership =
  | { readonly kind: "own"; readonly by: "ledger"; readonly identity: OwnershipIdentity | null }
  | { readonly kind: "own"; readonly by: "tags"; readonly identity: OwnershipIdentity }
  /** Complete tags of another deployment on the same account: its own reaper looks after it. */
  | { readonly kind: "other-deployment"; readonly deployment: string }
  /** Some of our tags, but not all, or they contradict each other or the pod's name: reported, never touched. */
  | { readonly kind: "disagreeing"; readonly why: string }
  /** Our kind of name without any tag: reported, never touched. */
  | { readonly kind: "untagged" }
  /** Nothing of ours. */
  | { readonly kind: "foreign" };

export interface OwnershipOptions {
  /** Pod ids in our ledger. The ledger wins over tags: a pod-scoped key can rename a pod. */
  readonly ledgerPodIds?: ReadonlySet<string>;
  readonly names?: TagNames;
  /** The name a pod with this identity must have. */
  readonly expectedName?: (identity: OwnershipIdentity) => string;
}

/** Whose pod this is, seen from `deployment`. Only `own` may be deleted. */
export function ownedBy(
  pod: { readonly id: string; readonly name: string; readonly tags: Readonly<Record<string, string>> },
  deployment: string,
  options: OwnershipOptions = {},
): Ownership {
  const names = options.names ?? GPU_GATE_TAGS;
  const { identity, present, missing } = readIdentity(pod.tags, names);

  if (options.ledgerPodIds?.has(pod.id) === true) return { kind: "own", by: "ledger", identity };
  if (present === 0) return pod.name.startsWith(POD_NAME_PREFIX) ? { kind: "untagged" } : { kind: "foreign" };
  if (identity === null) return { kind: "disagreeing", why: `missing or unreadable: ${missing.join(", ")}` };
  if (identity.deployment !== deployment) return { kind: "other-deployment", deployment: identity.deployment };
  if (pod.name !== (options.expectedName ?? podName)(identity)) {
    return { kind: "disagreeing", why: "the pod's name is not the one its tags call for" };
  }
  return { kind: "own", by: "tags", identity };
}

const DECIMAL_ID = /^[1-9]\d*$/;

function readIdentity(
  tags: Readonly<Record<string, string>>,
  names: TagNames,
): { readonly identity: OwnershipIdentity | null; readonly present: number; readonly missing: readonly string[] } {
  const values: Partial<Record<keyof OwnershipIdentity, string>> = {};
  const missing: string[] = [];
  let present = 0;
  for (const field of FIELDS) {
    const value = Object.hasOwn(tags, names[field]) ? tags[names[field]] : undefined;
    if (value !== undefined) present += 1;
    if (value === undefined || !isWellFormed(field, value)) missing.push(names[field]);
    else values[field] = value;
  }
  const { deployment, repositoryId, requestId, attemptId, runId, keep } = values;
  const complete =
    deployment !== undefined &&
    repositoryId !== undefined &&
    requestId !== undefined &&
    attemptId !== undefined &&
    runId !== undefined &&
    keep !== undefined;
  const identity = complete ? { deployment, repositoryId, requestId, attemptId, runId, keep } : null;
  return { identity, present, missing };
}

function isWellFormed(field: keyof OwnershipIdentity, value: string): boolean {
  switch (field) {
    case "repositoryId":
    case "runId":
      return DECIMAL_ID.test(value);
    case "keep":
      return value === "true" || value === "false";
    case "deployment":
    case "requestId":
    case "attemptId":
      return value !== "";
    default:
      return unreachable(field, "ownership tag");
  }
}
