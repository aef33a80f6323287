/**
 * The records that keep pods for debugging, read for one sweep: all at once, as far as it is known at its start which matter,
 * and each gate is waited for once. A gate that hangs would otherwise delay every pod behind its own by ten seconds each.
 */
import type { RetentionView } from "../shared/lifecycle/reap.ts";
import type { Millis } from "../shared/ports.ts";
import type { CronPorts } from "./ports.ts";
import { messageOf } from "./wake-gates.ts";

interface KeptPod {
  readonly podId: string;
  readonly repositoryId: string;
}

/** A record that was read longer ago is read again: a maintainer may have given the pod more time meanwhile. */
const FRESH_MS = 20_000;

export class KeptPods {
  readonly #ports: Pick<CronPorts, "gate" | "clock">;
  readonly #asked = new Map<string, { readonly at: Millis; readonly answer: Promise<RetentionView> }>();
  /** Gates that did not tell, with what came instead. */
  readonly #silent = new Map<string, RetentionView>();

  constructor(ports: Pick<CronPorts, "gate" | "clock">) {
    this.#ports = ports;
  }

  /** Never rejects. A gate that does not tell is no record: at the backstop the pod goes. */
  recordOf(pod: KeptPod): Promise<RetentionView> {
    const now = this.#ports.clock.now();
    const asked = this.#asked.get(pod.podId);
    if (asked !== undefined && now - asked.at < FRESH_MS) return asked.answer;
    const silent = this.#silent.get(pod.repositoryId);
    // What this gate told of the pod a moment ago outlives a failure of its answer about another.
    if (silent !== undefined) return asked?.answer ?? Promise.resolve(silent);
    const answer = this.#ask(pod);
    this.#asked.set(pod.podId, { at: now, answer });
    return answer;
  }

  async #ask({ podId, repositoryId }: KeptPod): Promise<RetentionView> {
    try {
      const record = (await this.#ports.gate(repositoryId).retentionOf?.(podId)) ?? null;
      return record === null ? { kind: "none" } : { kind: "until", until: record.until };
    } catch (error) {
      const what = `its retention record could not be read: ${messageOf(error)}`;
      const view: RetentionView = { kind: "unreadable", what };
      this.#silent.set(repositoryId, view);
      return view;
    }
  }
}
