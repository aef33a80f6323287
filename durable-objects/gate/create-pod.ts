/**
 * One create request: the pull request looked at once more, the body built from stored facts and in-memory secrets, the
 * answer classified. The only place where money is spent.
 */
import { flagged } from "../../shared/lifecycle/keep.ts";
import type { CreateOutcome, Task } from "../../shared/lifecycle/tasks.ts";
import { followsPull, obsolete } from "../../shared/lifecycle/judge.ts";
import type { Attempt } from "../../shared/lifecycle/model.ts";
import { limitMillis } from "../../shared/config/limits.ts";
import { withoutBadDataCenters } from "../../shared/runpod/bad-hosts.ts";
import { buildCreateBody } from "../../shared/runpod/create-body.ts";
import { unreachable } from "../../shared/result.ts";
import { startScript } from "../../pod/start-script.generated.ts";
import { badDataCenters } from "./hosts.ts";
import { observe, podFacts } from "./observe.ts";
import type { PerformContext } from "./perform.ts";

export async function createPod(
  task: Extract<Task, { kind: "create-pod" }>,
  context: PerformContext,
): Promise<CreateOutcome> {
  const { ports, request, store, secrets, repository } = context;
  const state = request.state;
  const secret = secrets.of(task.attemptId);
  const config = request.terms === null ? null : store.config(request.terms.configHash);
  const attempt = state.kind === "provisioning" ? state.attempt : null;
  if (secret === null || config === null || attempt === null || attempt.run === null || state.kind !== "provisioning") {
    return { kind: "secret-lost" };
  }
  const pull = followsPull(request);
  const look = () => (pull === undefined ? null : observe({ pull }, { ...context, tickMs: 0 }));
  const [first, held] = await Promise.all([look(), heldBack(attempt, context)]);
  if (held !== null) return held;
  // An answer that was lost is asked for once more, as the account's is.
  const seen = first?.pull?.known === false && first.pull.retryAt === null ? await look() : first;
  if (seen !== null) {
    if (seen.pull?.known === false) return { kind: "unread", why: seen.pull.why, retryAt: seen.pull.retryAt };
    // One 404 ends nothing elsewhere, but nothing is bought for a pull request that GitHub does not show.
    if (seen.pull?.known === true && seen.pull.value === "gone") return { kind: "obsolete", which: "closed" };
    const gone = obsolete(request, seen.pull);
    if (gone !== null) {
      const moved = gone.reason === "base-moved" ? "base-moved" : "head-moved";
      return { kind: "obsolete", which: gone.kind === "closed" ? "closed" : moved };
    }
  }
  const gpuId = task.candidate.acceptedIds[0] ?? "";
  const limits = request.terms?.limits;
  const now = ports.clock.now();
  const memoryMs = limitMillis(config).bad_host_memory;
  const body = buildCreateBody({
    name: task.podName,
    image: state.plan.image,
    gpuId,
    cuda: { kind: "allowed", versions: config.gpu.cuda_versions },
    dataCenterIds: withoutBadDataCenters(
      config.gpu.data_centers,
      badDataCenters(ports.sql, now - memoryMs),
      now,
      memoryMs,
    ),
    diskGb: config.gpu.disk_gb,
    entrypoint: ["bash", "-c"],
    // The second word names the script in process lists.
    cmd: [startScript, "gpu-gate-start"],
    env: {
      jitConfig: secret.jitConfig,
      proofNonce: secret.proofNonce,
      exitNonce: secret.exitNonce,
      controlUrl: ports.publicUrl,
      owner: {
        deployment: ports.deployment,
        repositoryId: repository.id,
        requestId: request.id,
        attemptId: task.attemptId,
        runId: attempt.run.runId,
        keep: String(flagged(request.keep, task.attemptId)),
      },
      facts: {
        tier: task.candidate.tier,
        gpuId,
        price: task.candidate.price === null ? "" : String(task.candidate.price),
        expectedGpuNames: task.candidate.acceptedIds.join("\n"),
        minVramMb: String(config.gpu.min_vram_gb * 1000),
        minDriverCuda: "12.6",
        startupSeconds: String(Math.ceil((limits?.startup ?? 420_000) / 1000)),
        smoke: Object.keys(config.gpu.nvrtc).length > 0 ? "required" : "off",
        runAttempt: String(attempt.run.attempt),
        workflowRef: `${repository.owner}/${repository.name}/${request.terms?.workflows.execute ?? ""}@refs/heads/${request.admission?.defaultBranch ?? ""}`,
        ...(config.gpu.nvrtc["12.6"] === undefined
          ? {}
          : { nvrtcBaselineUrl: config.gpu.nvrtc["12.6"].url, nvrtcBaselineSha256: config.gpu.nvrtc["12.6"].sha256 }),
        ...(config.gpu.nvrtc["12.8"] === undefined
          ? {}
          : { nvrtcFullUrl: config.gpu.nvrtc["12.8"].url, nvrtcFullSha256: config.gpu.nvrtc["12.8"].sha256 }),
      },
    },
  });
  // The look and the account took their time: whoever was told to end meanwhile rents nothing.
  if (!context.sending()) return { kind: "stopped" };
  const sentAt = ports.clock.now();
  if (!body.ok) {
    const detail = `The create request cannot be sent: ${body.error.reason}.`;
    return { kind: "stop", reason: "request-invalid", detail, elapsedMs: 0 };
  }
  const answer = await ports.runpod.createPod(body.value, { timeoutMs: task.timeoutMs });
  const elapsedMs = Math.max(0, ports.clock.now() - sentAt);
  switch (answer.kind) {
    case "created":
      return { kind: "created", pod: podFacts(answer.pod), sentAt, elapsedMs };
    case "capacity":
      return { kind: "capacity", elapsedMs };
    case "rate-limited":
      return { kind: "rate-limited", retryAfterMs: answer.retryAfterMs, elapsedMs };
    case "ambiguous":
      return { kind: "ambiguous", why: answer.why, retryAfterMs: answer.retryAfterMs, sentAt, elapsedMs };
    case "balance":
      return { kind: "stop", reason: "balance", detail: "RunPod refused for lack of balance.", elapsedMs };
    case "pool-forbidden":
      return { kind: "skip", why: "pool", detail: answer.details.join(" "), elapsedMs };
    case "edge-blocked":
      return {
        kind: "stop",
        reason: "provider-outage",
        detail: "RunPod's network edge refused the request.",
        elapsedMs,
      };
    case "unauthorized":
      return { kind: "stop", reason: "provider-key", detail: "RunPod did not accept the key.", elapsedMs };
    case "image-refused":
      return { kind: "stop", reason: "image-refused", detail: answer.details.join(" "), elapsedMs };
    case "invalid":
      // A 400 may be a shortage in words we do not know; a 422 breaks the contract everywhere.
      return answer.status === 400
        ? { kind: "skip", why: "invalid", detail: answer.details.join(" "), elapsedMs }
        : { kind: "stop", reason: "request-invalid", detail: answer.details.join(" "), elapsedMs };
    case "retired":
      return { kind: "stop", reason: "provider-outage", detail: "RunPod has retired this interface.", elapsedMs };
    default:
      return unreachable(answer, "create answer");
  }
}

/**
 * The account's word once more, directly before the money is spent: a pause stops a walk that is under way, and books that
 * lost the reservation have it again. Null: it stands behind this attempt.
 */
async function heldBack(attempt: Attempt, { ports }: PerformContext): Promise<CreateOutcome | null> {
  const ask = () => ports.account.reserve(attempt.id, attempt.reservedMicros);
  const first = await ask();
  const answer = first.ok ? first : await ask();
  if (!answer.ok) {
    const detail = `The account behind the RunPod key did not answer, so nothing was bought: ${answer.why}`;
    return { kind: "held-back", because: "account-unreachable", detail };
  }
  if (answer.value.kind === "reserved") return null;
  return { kind: "held-back", because: answer.value.because ?? "account-unreachable", detail: answer.value.detail };
}
