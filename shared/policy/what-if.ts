/** Two policies over the same history: which changes would have been classified differently, and what that costs. */
import type { ChangedFile } from "./changes.ts";
import { GPU_LANE, type ChangeClass, type ChangePolicy } from "./classify.ts";

export interface PastChange {
  readonly sha: string;
  /** Commit time, seconds since the epoch, as git prints it. */
  readonly committedAt: number;
  readonly subject: string;
  readonly files: readonly ChangedFile[];
}

export interface Difference {
  readonly sha: string;
  readonly committedAt: number;
  readonly subject: string;
  readonly before: ChangeClass;
  readonly after: ChangeClass;
  /** Lanes that only the new policy asks for, and lanes that only the old one did. */
  readonly turnedOn: readonly string[];
  readonly turnedOff: readonly string[];
}

export interface WhatIfTotals {
  readonly changes: number;
  readonly different: number;
  /** How often each lane is asked for, before and after; the lane `gpu` is the paid one. */
  readonly lanes: Readonly<Record<string, { readonly before: number; readonly after: number }>>;
}

export interface WhatIf {
  /** Judges one change as a pull request would have been; null when both policies agree. */
  readonly add: (change: PastChange) => Difference | null;
  readonly totals: () => WhatIfTotals;
}

export function whatIf(before: ChangePolicy, after: ChangePolicy): WhatIf {
  const names = [...new Set([GPU_LANE, ...before.index.laneNames, ...after.index.laneNames])];
  const counts = new Map(names.map((name) => [name, { before: 0, after: 0 }]));
  let changes = 0;
  let different = 0;
  return {
    add: (past) => {
      const change = { event: "pull_request", files: past.files, problem: null };
      const old = before.classify(change);
      const now = after.classify(change);
      const turnedOn: string[] = [];
      const turnedOff: string[] = [];
      changes += 1;
      for (const [name, count] of counts) {
        const was = old.lanes[name] === true;
        const is = now.lanes[name] === true;
        if (was) count.before += 1;
        if (is) count.after += 1;
        if (is && !was) turnedOn.push(name);
        if (was && !is) turnedOff.push(name);
      }
      if (old.classification === now.classification && turnedOn.length === 0 && turnedOff.length === 0) return null;
      different += 1;
      const { sha, committedAt, subject } = past;
      return { sha, committedAt, subject, before: old.classification, after: now.classification, turnedOn, turnedOff };
    },
    totals: () => ({ changes, different, lanes: Object.fromEntries(counts) }),
  };
}
