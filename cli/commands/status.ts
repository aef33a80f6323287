/** `gpu-gate status` and `gpu-gate queue`: what the control plane shows of itself, in a terminal. */
import { parseArgs } from "node:util";
import * as z from "zod";
import { safeText } from "../../shared/http.ts";
import { EXIT_NO, EXIT_OK, type Command, type Io } from "../command.ts";
import { addressOf, callControlPlane, TOKEN_VARIABLE, tokenIfSet } from "../control-plane.ts";
import { repositoryOf } from "../github-get.ts";

const options = `
  --url URL         address of the control plane, default GPU_GATE_URL
  --repository O/R  only this repository
  --json            print the answer as JSON

The control plane answers while its status page is on (STATUS_PAGE), or with the operator's token (${TOKEN_VARIABLE}).
Exit codes: 0 shown, 1 it does not answer or serves no repository of that name, 2 wrong call.
`;

const RECENT_SHOWN = 10;

/** Read tolerantly: an older command must still show what it understands of a newer answer. */
const requestSchema = z.object({
  id: z.string(),
  prNumber: z.number().nullable(),
  headSha: z.string(),
  state: z.string(),
  headline: z.string(),
  verdict: z.string().nullable(),
  reason: z.string().nullable(),
  openedAt: z.number(),
  concludedAt: z.number().nullable(),
  costMicros: z.number(),
});

const podSchema = z.object({
  podId: z.string(),
  requestId: z.string(),
  gpu: z.string().nullable(),
  pricePerHour: z.number().nullable(),
  since: z.number(),
  costMicros: z.number().nullable(),
});

/** Micro-dollars; a control plane of before does not tell them. */
const windowSchema = z.object({ spent: z.number(), reserved: z.number(), cap: z.number().nullable() });

const viewSchema = z.object({
  repository: z.string().nullable(),
  lock: z.object({ holder: z.string().nullable(), since: z.number().nullable() }),
  queue: z.array(requestSchema),
  open: z.array(requestSchema),
  recent: z.array(requestSchema),
  pods: z.array(podSchema),
  money: z.object({ day: windowSchema, month: windowSchema }).optional(),
});

const statusSchema = z.object({
  at: z.number(),
  deployment: z.string(),
  repositories: z.array(z.object({ id: z.string(), view: viewSchema.nullable() })),
});

type View = z.output<typeof viewSchema>;
type Row = z.output<typeof requestSchema>;

export const statusCommand: Command = {
  name: "status",
  summary: "Show what every gate does: open requests, pods that are paid for, last verdicts",
  usage: `\ngpu-gate status [options]\n${options}`,
  run: (args, io) => show("status", args, io, statusText),
};

export const queueCommand: Command = {
  name: "queue",
  summary: "Show who holds the GPU lock and who waits for it, in order",
  usage: `\ngpu-gate queue [options]\n${options}`,
  run: (args, io) => show("queue", args, io, queueText),
};

type Text = (view: View, now: number) => readonly string[];

async function show(command: string, args: readonly string[], io: Io, text: Text): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { url: { type: "string" }, repository: { type: "string" }, json: { type: "boolean", default: false } },
  });
  const token = tokenIfSet(io);
  const url = addressOf(values.url, io, token.token === undefined ? "no secret" : "a token");
  if (values.repository !== undefined) repositoryOf(values.repository, io);
  const call = { address: `${url}/api/status`, open: "with the status page", ...token } as const;
  const status = await callControlPlane(call, statusSchema, io);
  if (!status.ok) {
    io.stderr(`gpu-gate ${command}: ${status.error}\n`);
    return EXIT_NO;
  }
  const wanted = status.value.repositories.filter(
    ({ view }) =>
      values.repository === undefined || view?.repository?.toLowerCase() === values.repository.toLowerCase(),
  );
  // What was asked about is not there: a script must not take that for an idle gate.
  const unserved = values.repository !== undefined && wanted.length === 0;
  if (unserved) {
    const unheard = status.value.repositories.some(({ view }) => view === null) ? ", or its gate did not answer" : "";
    io.stderr(
      `gpu-gate ${command}: no repository '${safeText(values.repository ?? "")}' is served at ${url}${unheard}.\n`,
    );
  }
  if (values.json) {
    io.stdout(`${JSON.stringify({ ...status.value, repositories: wanted }, null, 2)}\n`);
    return unserved ? EXIT_NO : EXIT_OK;
  }
  if (unserved) return EXIT_NO;
  if (wanted.length === 0) io.stdout("No repository is served here yet.\n");
  for (const { id, view } of wanted) {
    // The operator's commands take the number, and nothing else here tells it.
    const full = view?.repository ?? null;
    io.stdout(full === null ? `repository ${id}\n` : `${safeText(full)} (repository ${id})\n`);
    const lines = view === null ? ["its gate did not answer"] : text(view, status.value.at);
    for (const line of lines) io.stdout(`  ${line}\n`);
  }
  // A gate that does not answer is not a gate without work.
  return wanted.every(({ view }) => view !== null) ? EXIT_OK : EXIT_NO;
}

function statusText(view: View, now: number): readonly string[] {
  const pods = view.pods.map(
    (pod) =>
      `pod ${safeText(pod.podId)} for ${pod.requestId}: ${safeText(pod.gpu ?? "GPU unknown")}${pod.pricePerHour === null ? "" : ` at USD ${pod.pricePerHour}/h`}, ${minutes(now - pod.since)}${pod.costMicros === null ? "" : `, ${dollars(pod.costMicros)} so far`}`,
  );
  const ended = view.recent.filter((row) => row.concludedAt !== null).slice(0, RECENT_SHOWN);
  return [
    ...(pods.length === 0 ? ["no pod is paid for"] : pods),
    ...(view.money === undefined ? [] : [spentText(view.money)]),
    ...(view.open.length === 0 ? ["no open request"] : view.open.map((row) => openLine(row, now))),
    ...ended.map((row) => `${name(row)}  ${row.verdict ?? row.state} (${row.reason ?? ""})  ${costText(row, view)}`),
  ];
}

/** With what the pods that are kept of it cost until now. */
function costText({ id, costMicros }: Row, { pods }: View): string {
  const kept = pods.filter((pod) => pod.requestId === id);
  const micros = kept.reduce((sum, pod) => sum + (pod.costMicros ?? 0), costMicros);
  return kept.length === 0 ? dollars(micros) : `${dollars(micros)} so far`;
}

function spentText({ day, month }: NonNullable<View["money"]>): string {
  const part = (window: string, { spent, reserved, cap }: typeof day): string =>
    `${window} ${dollars(spent)}${cap === null ? "" : ` of ${dollars(cap)}`}${reserved === 0 ? "" : ` and up to ${dollars(reserved)} set aside`}`;
  return `spent ${part("today (UTC)", day)}, ${part("this month", month)}`;
}

function queueText(view: View, now: number): readonly string[] {
  const { holder, since } = view.lock;
  const held =
    holder === null
      ? "the GPU lock is free"
      : `${holder} holds the GPU lock${since === null ? "" : `, ${minutes(now - since)}`}`;
  return [held, ...view.queue.map((row, index) => `${index + 1}. ${openLine(row, now)}`)];
}

function openLine(row: Row, now: number): string {
  return `${name(row)}  ${row.state}, open ${minutes(now - row.openedAt)}: ${safeText(row.headline)}`;
}

function name(row: Row): string {
  const subject = row.prNumber === null ? row.headSha.slice(0, 12) : `#${row.prNumber} ${row.headSha.slice(0, 12)}`;
  return `${row.id} ${subject}`;
}

function minutes(ms: number): string {
  if (ms >= 0 && ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  return `${Math.max(0, Math.round(ms / 60_000))} min`;
}

function dollars(micros: number): string {
  return `USD ${(micros / 1_000_000).toFixed(4)}`;
}
