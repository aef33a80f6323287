/**
 * The repository's one GPU lock. It changes in the same transaction as the request that takes it or gives it up: first in,
 * first out, and fenced, so that only the present holder can give it up.
 */
import { audit, type AuditNote, type Step } from "../../shared/lifecycle/step.ts";
import type { Millis } from "../../shared/ports.ts";
import type { Store } from "./store.ts";

export interface LockHands {
  /** The lock is this request's now. */
  readonly granted: (requestId: string, fence: number) => void;
  /** A waiter's place has changed. */
  readonly moved: (requestId: string) => void;
  readonly audit: (requestId: string, note: AuditNote) => void;
}

/** Waiters whose check says their place anew when the lock passes on. */
const TOLD = 20;

/** What a step says about the lock. `fence` is the token the request held before the step. */
export function changeLock(
  change: Step["lock"],
  requestId: string,
  fence: number | null,
  store: Store,
  now: Millis,
  hands: LockHands,
): void {
  if (change === "leave" || change === "release") store.dequeue(requestId);
  if (change === "release") {
    const lock = store.lock();
    if (lock.holder === requestId && (fence === null || fence === lock.fence || lock.damaged === true)) {
      store.setLock({ holder: null, fence: Math.max(lock.fence, fence ?? 0), since: null });
      hands.audit(requestId, audit("lock.release", null, { fence: lock.fence }));
    }
  }
  if (change !== null) grantLock(store, now, hands);
}

/** First in, first out. A head that is no longer there is passed over on the spot. */
export function grantLock(store: Store, now: Millis, hands: LockHands): void {
  for (;;) {
    const lock = store.lock();
    if (lock.holder !== null) return;
    const first = store.firstInQueue();
    if (first === null) return;
    store.dequeue(first);
    const request = store.request(first);
    if (request === null || request.state.kind !== "queued") continue;
    const fence = lock.fence + 1;
    store.setLock({ holder: first, fence, since: now });
    hands.granted(first, fence);
    for (const waiter of store.queue(TOLD)) hands.moved(waiter.requestId);
  }
}
