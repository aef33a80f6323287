/**
 * The job of gpu-gate-prepare.yml that looks for an earlier run's archives, by its name there, which is part of the contract
 * (docs/workflows.md). It forgives itself: whatever comes of it, its own conclusion says nothing about the run's.
 */
export const LOOK_UP_JOB = "Archives of an earlier run";
