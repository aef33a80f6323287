/** `--keep MINUTES` of recover and validate: the machine is kept for debugging only on a maintainer's own word. */
import { UsageError } from "./command.ts";

/** The control plane takes no more, and ends it at the configuration's `max_retention` in any case. */
export const MAX_MINUTES = 720;

/** The workflow's input; none where nobody asked, so that an older workflow file without it still works. */
export function keepInput(minutes: string | undefined): Readonly<Record<string, string>> {
  if (minutes === undefined) return {};
  if (!/^[1-9]\d{0,2}$/.test(minutes) || Number(minutes) > MAX_MINUTES)
    throw new UsageError(`--keep takes 1 to ${MAX_MINUTES} minutes, not '${minutes}'.`);
  return { keep_minutes: minutes };
}
