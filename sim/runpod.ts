/**
 * A RunPod in memory, with the vendor's habits (runpod-facts): capacity told by text, creates that are done and answered
 * 500, lists that lag, newborn pods that answer 404, pods that outlive their 204. It bills from rent to release in
 * micro-dollars. Its books are kept apart from the product's.
 */
import { openApiDocument } from "../local/runpod/openapi.ts";
import type { Millis } from "../shared/ports.ts";
import type { Clocks } from "./clocks.ts";
import { DEFAULT_TIERS } from "../shared/runpod/default-tiers.ts";
import type { Faults } from "./faults.ts";
import type { NetAnswer, NetRequest, Server } from "./net.ts";
import type { Prng } from "./prng.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Trace } from "./trace.ts";

export interface VirtualPod {
  readonly id: string;
  readonly name: string;
  readonly gpuId: string;
  readonly env: Readonly<Record<string, string>>;
  /** What was asked for, and what is really in the machine: the API may tell a third thing. */
  readonly askedGpu: string;
  realGpu: string;
  readonly price: number;
  /** When the create was sent, and when the machine was rented. */
  readonly askedAt: Millis;
  readonly createdAt: Millis;
  /** Longest that a list may go without it. */
  readonly listedFrom: Millis;
  readonly knownFrom: Millis;
  /** How long after its create was sent it appeared: late ones come when nobody waits any more. */
  readonly late: boolean;
  status: "PROVISIONING" | "STARTING" | "RUNNING" | "EXITED" | "ERROR" | "TERMINATED";
  placed: boolean;
  runtimeUp: boolean;
  busy: boolean;
  startedAt: Millis | null;
  /** Each DELETE asked for it, and the instant the last one was performed. */
  readonly deletes: { readonly askedAt: Millis; readonly performedAt: Millis; readonly by: string }[];
  /** Not released before this, whatever is answered. */
  livesUntil: Millis;
  /** End of billing. */
  releasedAt: Millis | null;
  /** Until when lists, and a GET, show it although it is gone. */
  listedUntil: Millis;
  readUntil: Millis;
  /** As what they show it then. */
  ghost: string;
  /** Nobody deleted it: RunPod lost it. */
  vanished: boolean;
  /** What the machine is told when it goes. */
  onRelease: (() => void) | null;
  /** What its log has beside the first line. */
  readonly said: string[];
}

export interface RunPodOptions {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly rng: Prng;
  readonly trace: Trace;
  readonly clocks: Clocks;
  /** Pods on a page of a list; small ones where none is given, so that pages matter. */
  readonly pageSize?: number;
  readonly onPod: (pod: VirtualPod) => void;
}

const CAPACITY =
  "There are no longer any instances available with the requested specifications. Please refresh and try again.";
const GPUS = DEFAULT_TIERS.flatMap((tier) => tier.gpuIds);
/** Pods on a page of a list. */
const SMALL_PAGE = 2;
const DAY_MS = 86_400_000;
const EXTRA = ["NVIDIA RTX 4000 Ada Generation"];

const problem = (status: number, title: string, detail: string, headers: Record<string, string> = {}): NetAnswer => ({
  status,
  body: JSON.stringify({ title, status, detail }),
  headers: { "content-type": "application/problem+json", ...headers },
});
const json = (status: number, body: unknown): NetAnswer => ({
  status,
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});

export class VirtualRunPod implements Server {
  readonly name = "runpod" as const;
  readonly pods: VirtualPod[] = [];
  readonly apiKey: string;
  /** For hours: no money, no machine of any kind, a key that was withdrawn. */
  balanceGone = false;
  capacityOut = false;
  keyRevoked = false;
  /** For so long since a create, the key is not taken: it was withdrawn while that create was on its way. */
  #keyBackAt: Millis = 0;
  readonly #options: RunPodOptions;
  readonly #prices = new Map<string, number>();
  readonly #document: string;
  readonly #movedDocument: string;
  #refusesAll = false;
  #count = 0;

  constructor(options: RunPodOptions) {
    this.#options = options;
    this.apiKey = `rpa_${options.rng.hex(40).toUpperCase()}`;
    for (const id of [...GPUS, ...EXTRA]) this.#prices.set(id, options.rng.int(16, 150) / 100);
    this.#document = JSON.stringify(openApiDocument);
    this.#movedDocument = this.#document.replaceAll('"disk"', '"diskGb"');
  }

  operation(method: string, path: string): string {
    if (path === "/v2/pods") return method === "POST" ? "createPod" : "listPods";
    if (path.endsWith("/logs")) return "getPodLogs";
    if (path === "/v2/billing/pods") return "billing";
    if (path.startsWith("/v2/pods/")) return method === "DELETE" ? "deletePod" : "getPod";
    if (path === "/v2/openapi.json") return "openapi";
    if (path === "/v2/catalog/gpus") return "catalog";
    if (path === "/graphql") return "graphql";
    return `${method} ${path}`;
  }

  perform(request: NetRequest): NetAnswer {
    const operation = this.operation(request.method, request.path);
    if (
      operation !== "openapi" &&
      operation !== "graphql" &&
      (this.#keyIsGone() || request.headers.get("authorization") !== `Bearer ${this.apiKey}`)
    ) {
      return problem(401, "Unauthorized", "Invalid API key");
    }
    const now = this.#options.scheduler.now;
    switch (operation) {
      case "createPod":
        return this.#create(request);
      case "listPods": {
        // Small pages, so that they matter; a cursor names the last pod shown.
        const from = Number(request.query.get("cursor") ?? "0");
        const alive = [...this.pods.entries()].filter(
          ([index, pod]) =>
            index >= from && (pod.releasedAt === null || now < pod.listedUntil) && now >= pod.listedFrom,
        );
        const size = this.#options.pageSize ?? SMALL_PAGE;
        const page = alive.slice(0, size);
        const hasNextPage = alive.length > size;
        return json(200, {
          pods: page.map(([, pod]) => this.#json(pod)),
          pagination: { nextCursor: hasNextPage ? String((page.at(-1)?.[0] ?? 0) + 1) : null, hasNextPage },
        });
      }
      case "getPod": {
        const pod = this.#find(request.path);
        const gone = pod === undefined || (pod.releasedAt !== null && now >= pod.readUntil);
        if (gone || now < pod.knownFrom) return this.#unknown();
        return json(200, this.#json(pod));
      }
      case "deletePod":
        return this.#delete(request);
      case "getPodLogs": {
        const pod = this.#find(request.path.replace(/\/logs$/, ""));
        if (pod === undefined || now < pod.knownFrom) return this.#unknown();
        const lines = ["[gpu-gate] hello", ...pod.said];
        return {
          status: 200,
          body: lines.map((line) => `data: ${JSON.stringify({ source: "container", line, ts: "" })}\n\n`).join(""),
        };
      }
      case "billing": {
        const { clocks } = this.#options;
        const from = clocks.runpodReaches(Date.parse(request.query.get("startTime") ?? ""));
        const until = clocks.runpodReaches(Date.parse(request.query.get("endTime") ?? ""));
        return json(200, { records: this.pods.flatMap((pod) => this.#bill(pod, from, Math.min(until, now))) });
      }
      case "openapi":
        return {
          status: 200,
          body: this.#options.faults.strikes("runpod-contract-moved", 0.1) ? this.#movedDocument : this.#document,
        };
      case "catalog":
        return json(200, { gpus: [...this.#prices].map(([id, price]) => this.#gpu(id, price)) });
      case "graphql":
        return json(200, {
          data: {
            gpuTypes: [...this.#prices].map(([id, price]) => ({
              id,
              memoryInGb: 24,
              secureCloud: true,
              securePrice: price,
              lowestPrice: { stockStatus: "High", uninterruptablePrice: price },
            })),
          },
        });
      default:
        return problem(404, "Not Found", "The requested path was not found.");
    }
  }

  fault(kind: "refuses" | "rate-limit" | "outage"): NetAnswer {
    if (kind === "rate-limit")
      return problem(429, "Too Many Requests", "Rate limited", { "retry-after": String(this.#options.rng.int(1, 60)) });
    if (kind === "outage") return { status: 503, body: "<html>down</html>", headers: { "content-type": "text/html" } };
    return problem(this.#options.rng.chance(0.5) ? 500 : 502, "Upstream", "Something went wrong");
  }

  /** The dearest GPU on sale, USD per hour. All of them are in the reviewed tiers, so a plan's dearest is never cheaper. */
  get dearest(): number {
    return Math.max(...this.#prices.values());
  }

  /** What a pod has cost to this instant, micro-dollars. */
  billed(pod: VirtualPod, until = this.#options.scheduler.now): number {
    return ((Math.min(pod.releasedAt ?? until, until) - pod.createdAt) * pod.price * 1_000_000) / 3_600_000;
  }

  /** At a balance of nothing RunPod stops every pod, and sells none. */
  emptyBalance(): void {
    this.balanceGone = true;
    for (const pod of this.pods) {
      if (pod.releasedAt !== null || pod.status === "ERROR") continue;
      pod.status = "EXITED";
      pod.runtimeUp = false;
      pod.busy = false;
      this.#options.trace.note(`pod ${pod.id} is stopped: no money`);
      const told = pod.onRelease;
      pod.onRelease = null;
      told?.();
    }
  }

  release(pod: VirtualPod, why: string): void {
    if (pod.releasedAt !== null) return;
    const { faults, rng, scheduler } = this.#options;
    pod.releasedAt = scheduler.now;
    // A copy that lags has its last state.
    if (faults.on("runpod-ghost-listed") && rng.chance(0.7)) pod.ghost = pod.status;
    pod.status = "TERMINATED";
    if (faults.strikes("runpod-ghost-listed", 0.4)) pod.listedUntil = scheduler.now + rng.int(1_000, 90_000);
    if (faults.strikes("runpod-ghost-read", 0.4)) pod.readUntil = scheduler.now + rng.int(1_000, 90_000);
    this.#options.trace.note(`pod ${pod.id} is released: ${why}`);
    const told = pod.onRelease;
    pod.onRelease = null;
    told?.();
  }

  /** A record for each UTC day of the pod's life that the question covers. */
  #bill(pod: VirtualPod, from: Millis, until: Millis): readonly Record<string, unknown>[] {
    const { clocks } = this.#options;
    const end = Math.min(pod.releasedAt ?? until, until);
    const records: Record<string, unknown>[] = [];
    for (let at = Math.max(pod.createdAt, from); at < end;) {
      const tomorrow = (Math.floor((at + clocks.runpod(at)) / DAY_MS) + 1) * DAY_MS;
      // At least so much: a drift is rounded, and the last millisecond of a day would be its own midnight.
      const to = Math.min(Math.max(clocks.runpodReaches(tomorrow, at), at + 1), end);
      records.push({
        podId: pod.id,
        totalAmount: ((to - at) * pod.price) / 3_600_000,
        startTime: this.#shown(at),
        endTime: this.#shown(to),
      });
      at = to;
    }
    return records;
  }

  #create(request: NetRequest): NetAnswer {
    const { faults, rng, scheduler } = this.#options;
    const body = JSON.parse(request.body) as {
      name: string;
      image: string;
      gpu: { id: string; count: number };
      env: Record<string, string>;
    };
    if (faults.strikes("runpod-key-withdrawn", 0.15)) {
      this.#keyBackAt = scheduler.now + rng.int(20_000, 900_000);
      this.#options.trace.note("the key is withdrawn as a create arrives");
      return problem(401, "Unauthorized", "Invalid API key");
    }
    if (this.balanceGone || faults.strikes("runpod-balance", 0.05))
      return problem(402, "Payment Required", "Insufficient balance");
    if (faults.strikes("runpod-image-refused", 0.05))
      return problem(422, "Unprocessable", "The image manifest was not found");
    if (faults.strikes("runpod-pool-forbidden", 0.1)) return problem(403, "Forbidden", "No access to this pool");
    if ((this.#refusesAll && faults.on("runpod-invalid")) || faults.strikes("runpod-invalid", 0.1)) {
      // A rule that one machine breaks, or one that every request of ours breaks from now on.
      this.#refusesAll = faults.on("runpod-invalid") && (this.#refusesAll || rng.chance(0.3));
      return problem(rng.chance(0.7) ? 400 : 422, "Bad Request", "A rule was broken");
    }
    if (this.capacityOut) return problem(rng.chance(0.7) ? 400 : 500, "Error", CAPACITY);
    if (faults.on("runpod-capacity-everywhere") && faults.strikes("runpod-capacity-everywhere", 0.6))
      return problem(400, "Bad Request", CAPACITY);
    if (faults.strikes("runpod-capacity", 0.3)) return problem(rng.chance(0.5) ? 400 : 500, "Error", CAPACITY);
    const price = this.#prices.get(body.gpu.id);
    if (price === undefined) return problem(400, "Bad Request", CAPACITY);
    if (faults.strikes("runpod-late-pod", 0.1)) {
      const delay = rng.int(200_000, 1_200_000);
      this.#options.trace.note(`a pod '${body.name}' will appear in ${Math.round(delay / 1000)} s`);
      scheduler.in(delay, "late pod", () => void this.#rent(request, body, price, true));
      return this.fault("refuses");
    }
    return json(201, this.#json(this.#rent(request, body, price, false)));
  }

  /** Somebody else rents a machine on the same account, by a call of their own. */
  rentForOthers(name: string, gpuId: string, env: Readonly<Record<string, string>>): VirtualPod | null {
    const price = this.#prices.get(gpuId);
    const askedAt = this.#options.scheduler.now;
    return price === undefined ? null : this.#rent({ askedAt }, { name, gpu: { id: gpuId }, env }, price, true);
  }

  #rent(
    request: Pick<NetRequest, "askedAt">,
    body: { name: string; gpu: { id: string }; env: Readonly<Record<string, string>> },
    price: number,
    late: boolean,
  ): VirtualPod {
    const { faults, rng, scheduler, trace } = this.#options;
    const now = scheduler.now;
    this.#count += 1;
    const pod: VirtualPod = {
      id: `p${this.#count}${rng.hex(10)}`,
      name: body.name,
      gpuId: faults.strikes("pod-wrong-gpu", 0.1) ? "NVIDIA H100 80GB HBM3" : body.gpu.id,
      env: body.env,
      askedGpu: body.gpu.id,
      realGpu: body.gpu.id,
      price,
      askedAt: request.askedAt,
      createdAt: now,
      listedFrom: faults.strikes("runpod-list-lag", 0.4) ? now + rng.int(5_000, 60_000) : now,
      knownFrom: faults.strikes("runpod-newborn-404", 0.3) ? now + rng.int(5_000, 90_000) : now,
      late,
      status: "PROVISIONING",
      placed: false,
      runtimeUp: false,
      busy: false,
      startedAt: null,
      deletes: [],
      livesUntil: 0,
      releasedAt: null,
      listedUntil: 0,
      readUntil: 0,
      ghost: "TERMINATED",
      vanished: false,
      onRelease: null,
      said: [],
    };
    this.pods.push(pod);
    trace.note(`pod ${pod.id} '${pod.name}' is rented${late ? ", late" : ""}`);
    this.#options.onPod(pod);
    return pod;
  }

  #delete(request: NetRequest): NetAnswer {
    const { faults, rng, scheduler } = this.#options;
    const now = scheduler.now;
    const pod = this.#find(request.path);
    if (pod === undefined || now < pod.knownFrom || pod.releasedAt !== null) return this.#unknown();
    pod.deletes.push({ askedAt: request.askedAt, performedAt: now, by: request.caller });
    if (faults.strikes("runpod-delete-fails", 0.3)) return this.fault("refuses");
    if (pod.livesUntil === 0 && faults.strikes("runpod-lives-on", 0.2)) {
      pod.livesUntil = now + rng.int(10_000, 1_800_000);
      this.#options.trace.note(`pod ${pod.id} outlives its deletion`);
    }
    if (pod.livesUntil > now) {
      // The order is taken and forgotten: only one that comes later takes effect.
      return { status: 204, body: "" };
    }
    this.release(pod, "deleted");
    return { status: 204, body: "" };
  }

  /** Whoever withdrew it puts it back when the world heals. */
  #keyIsGone(): boolean {
    const { faults, scheduler } = this.#options;
    return this.keyRevoked || (!faults.healed && scheduler.now < this.#keyBackAt);
  }

  #unknown(): NetAnswer {
    return problem(404, "Not Found", "Pod not found");
  }

  #find(path: string): VirtualPod | undefined {
    const id = decodeURIComponent(path.slice("/v2/pods/".length));
    return this.pods.find((pod) => pod.id === id);
  }

  #gpu(id: string, price: number): Record<string, unknown> {
    return {
      id,
      name: id,
      memory: 24,
      secure: true,
      community: false,
      price: { secure: price, community: 0 },
      maxCount: { secure: 4, community: 0 },
      availability: "HIGH",
      cudaVersions: ["12.6", "12.7", "12.8", "12.9", "13.0"].map((version) => ({ version, available: true })),
    };
  }

  /** An instant as RunPod's own clock has it. */
  #shown(instant: Millis): string {
    return new Date(instant + this.#options.clocks.runpod(instant)).toISOString();
  }

  #json(pod: VirtualPod): Record<string, unknown> {
    const status = pod.releasedAt === null ? pod.status : pod.ghost;
    const running = status === "RUNNING" || status === "STARTING" || status === "PROVISIONING";
    return {
      id: pod.id,
      name: pod.name,
      status,
      actions: [],
      gpu: { id: pod.gpuId, count: 1 },
      cloud: "SECURE",
      dataCenterId: pod.placed ? "EU-1" : null,
      cudaVersion: "12.8",
      ssh: { proxy: pod.placed ? { host: "x" } : null, direct: null },
      cost: running ? pod.price : 0,
      createdAt: this.#shown(pod.createdAt),
      startedAt: pod.startedAt === null ? null : this.#shown(pod.startedAt),
      runtime: pod.runtimeUp
        ? { uptime: 1, gpus: [{ util: pod.busy ? 80 : 0 }], cpu: { util: pod.busy ? 50 : 1 } }
        : null,
      env: pod.env,
      locked: false,
    };
  }
}
