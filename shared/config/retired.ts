/**
 * Keys that once could be written and that nothing ever read. They are refused like any unknown key, but with what became of
 * them instead of the nearest name.
 */
export interface Retired {
  readonly path: readonly string[];
  /** Why it is gone, and where what it promised is set, if anywhere. */
  readonly why: string;
}

export const RETIRED: readonly Retired[] = [
  {
    path: ["runner", "label_prefix"],
    why: "it never had an effect: labels begin with `gpu-gate-`, and a runner has the name of its pod",
  },
  {
    path: ["runner", "run_as"],
    why: "it never had an effect: the runner process runs as the user of `gpu.image`, which is `runner` in the official one",
  },
  {
    path: ["limits", "owner_grace"],
    why: "it never had an effect: the reaper serves all repositories, so its grace is the deployment's, `owner_grace` of `DEPLOYMENT_LIMITS`",
  },
];

export function retired(path: readonly PropertyKey[]): Retired | null {
  return (
    RETIRED.find((one) => one.path.length === path.length && one.path.every((part, at) => part === path[at])) ?? null
  );
}
