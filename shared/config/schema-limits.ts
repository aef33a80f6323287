/**
 * Every time limit a repository may set. The unit is seconds everywhere; fractions let a local world run a whole life
 * in a few seconds. Upper bounds exist so that no wait, poll or lifetime is unlimited.
 */
import * as z from "zod";

const SHORTEST = 0.05;

export function seconds(fallback: number, max: number, text: string, min: number = SHORTEST) {
  return z.number().min(min).max(max).default(fallback).describe(text);
}

export const limitsSchema = z
  .strictObject({
    create_walk: seconds(60, 600, "Requests and sleeps of one walk over the candidates together."),
    backoff_base: seconds(10, 60, "First pause before a request is repeated."),
    backoff_cap: seconds(60, 300, "Longest pause before a request is repeated, a server's wish included."),
    create_look_up: seconds(180, 900, "How long an uncertain create is looked up by name."),
    dispatch_look_up: seconds(120, 900, "How long a dispatch without a run id is looked up by run name."),
    preparation: seconds(5100, 21_600, "From dispatch of the preparation to its success and green pre-gate checks."),
    queue_wait: seconds(21_600, 86_400, "Longest wait for the lock."),
    trigger_start: seconds(900, 7200, "How long the trigger workflow's run may take to start."),
    acceptance: seconds(420, 1800, "From our create to the pod's proof and its runner online."),
    no_machine: seconds(120, 1800, "A pod without a machine after this long is rejected."),
    idle_runner: seconds(120, 1800, "How long a runner may be online without its job."),
    setup: seconds(900, 3600, "From the pod's start to the start of the test step."),
    lifetime: seconds(3600, 7200, "Life of an accepted pod, from its start."),
    backstop: seconds(7200, 7200, "Life of any pod from its creation, whatever any other system says."),
    watch_poll: seconds(15, 120, "Pause between looks at a running pod and job."),
    watch_poll_tests: seconds(5, 120, "The same while the test step runs."),
    outage_idle: seconds(300, 1800, "Idle time after which a pod is given up while GitHub does not answer."),
    pod_record: seconds(5, 30, "Time for reading the pod's record before deletion; a failure is ignored."),
    delete_retry: seconds(5, 60, "Pause between the first three tries to delete."),
    delete_pause_base: seconds(15, 300, "First pause after three failed tries; it doubles from there."),
    delete_pause_cap: seconds(300, 900, "Longest pause between tries to delete, which never end."),
    absence_after_create: seconds(120, 900, "A 404 on delete counts only this long after our create."),
    absence_list_gap: seconds(10, 120, "Least time between the two complete lists that prove absence."),
    deletion_unproven: seconds(600, 7200, "After this the check says that deletion is not proven."),
    reconcile: seconds(300, 3600, "Pause between two comparisons with GitHub."),
    market_cache: seconds(300, 3600, "How long prices, stock and RunPod's contract may be reused."),
    bad_host_memory: seconds(21_600, 604_800, "How long a bad host is avoided.", 0),
    oidc_max_age: seconds(600, 3600, "Oldest token of a hosted job that is accepted."),
    reservation: seconds(4320, 14_400, "Paid time reserved for an attempt, at the plan's highest price."),
  })
  .prefault({})
  .describe("Time limits in seconds; fractions allowed.");
