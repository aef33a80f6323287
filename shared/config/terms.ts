/**
 * From the effective configuration to the terms of one request: the part of it the pure core decides with, in
 * milliseconds and plain values. The whole configuration is kept by its hash for what needs more.
 */
import type { Terms } from "../lifecycle/model.ts";
import { limitMillis, toMillis } from "./limits.ts";
import type { RepositoryConfig } from "./schema.ts";

/** How long a GitHub that does not answer is asked before the request gives up. Half an hour covers most incidents. */
const AUTHORIZE_RETRY_FOR_MS = 1_800_000;

export function termsFrom(config: RepositoryConfig, configHash: string): Terms {
  const limit = limitMillis(config);
  return {
    configHash,
    checkName: config.check.name,
    shadow: config.shadow,
    start: config.start,
    drafts: config.drafts,
    startWord:
      config.start === "label"
        ? config.start_words.label
        : config.start === "comment"
          ? config.start_words.comment
          : null,
    workflows: {
      trigger: config.workflows.trigger === "none" ? null : config.workflows.trigger,
      prepare: config.workflows.prepare,
      execute: config.workflows.execute,
    },
    preGate: [...config.pre_gate],
    testedRevision: config.tested_revision,
    runner: { scope: config.runner.scope, groupId: config.runner.group_id },
    evidence: {
      jobName: config.evidence.gpu_job,
      testSteps: [...config.evidence.test_steps],
      minTests: config.evidence.min_tests,
      minDuration: Math.round(config.evidence.min_seconds * 1000),
    },
    maxAttempts: config.gpu.max_attempts,
    maxStartupFailures: config.gpu.max_startup_failures,
    // A lost pod and a runner without a job are each tried once more on another machine; a failed test never is.
    runnerIdleRetries: 1,
    podLostRetries: 1,
    reservation: { reservedMs: limit.reservation },
    quietPeriod: toMillis(config.quiet_period),
    limits: {
      createWalk: limit.create_walk,
      createBackoffBase: limit.backoff_base,
      createBackoffCap: limit.backoff_cap,
      createLookup: limit.create_look_up,
      dispatchLookup: limit.dispatch_look_up,
      preparation: limit.preparation,
      queueWait: limit.queue_wait,
      triggerStart: limit.trigger_start,
      startup: limit.acceptance,
      machineAssigned: limit.no_machine,
      runnerIdle: limit.idle_runner,
      setup: limit.setup,
      lifetime: limit.lifetime,
      backstop: limit.backstop,
      watchPoll: limit.watch_poll,
      testPoll: limit.watch_poll_tests,
      preparePoll: limit.watch_poll,
      reconcile: limit.reconcile,
      githubOutageIdle: limit.outage_idle,
      deleteRetry: limit.delete_retry,
      deletePauseMin: limit.delete_pause_base,
      deletePauseMax: limit.delete_pause_cap,
      newbornGrace: limit.absence_after_create,
      absenceSpacing: limit.absence_list_gap,
      deletionLoudAfter: limit.deletion_unproven,
      authorizeRetryFor: AUTHORIZE_RETRY_FOR_MS,
    },
  };
}
