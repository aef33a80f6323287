/**
 * The sending side of the load run, in a thread of its own: what it measures must not wait for the local servers, which
 * live in the main thread. One message in is one phase, one message out is its results.
 */
import { Agent, request } from "node:http";
import { parentPort, workerData } from "node:worker_threads";
import { makeDelivery, type Planned } from "./deliveries.ts";

export interface SenderSettings {
  readonly url: string;
  readonly secret: string;
}

export interface Phase {
  readonly deliveries: readonly Planned[];
  /** Deliveries a second; 0: all at once. */
  readonly perSecond: number;
}

export interface Sent {
  readonly guid: string;
  /** 0: no answer. */
  readonly status: number;
  readonly text: string;
  /** From the moment it was to be sent: waiting for a connection counts, as it does for the sender. */
  readonly ms: number;
}

/** A sender that got no answer by then has given up. GitHub waits ten seconds; what comes later is counted as late. */
const PATIENCE_MS = 60_000;

const { url, secret } = workerData as SenderSettings;
const agent = new Agent({ keepAlive: true, maxSockets: 2_048, scheduling: "fifo" });

async function play({ deliveries, perSecond }: Phase): Promise<readonly Sent[]> {
  const began = performance.now();
  const answers: Promise<Sent>[] = [];
  // Bodies and signatures are made before a burst, or making them would spread it.
  const made = perSecond === 0 ? deliveries.map((planned) => makeDelivery(planned, secret)) : null;
  const burstAt = performance.now();
  for (const [index, planned] of deliveries.entries()) {
    const delivery = made?.[index] ?? makeDelivery(planned, secret);
    const dueAt = perSecond === 0 ? burstAt : began + (index * 1000) / perSecond;
    const wait = dueAt - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    for (let copy = planned.doubled ? 2 : 1; copy > 0; copy -= 1) answers.push(send(planned.guid, delivery, dueAt));
  }
  return Promise.all(answers);
}

function send(guid: string, { headers, body }: ReturnType<typeof makeDelivery>, dueAt: number): Promise<Sent> {
  return new Promise((resolve) => {
    const done = (status: number, text: string) => resolve({ guid, status, text, ms: performance.now() - dueAt });
    const sent = request(
      `${url}/github/webhooks`,
      {
        method: "POST",
        agent,
        headers: { ...headers, "content-length": Buffer.byteLength(body) },
        timeout: PATIENCE_MS,
      },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => (text += chunk));
        answer.once("end", () => done(answer.statusCode ?? 0, text));
        answer.once("error", () => done(0, "the answer broke off"));
      },
    );
    sent.once("timeout", () => sent.destroy(new Error("no answer in time")));
    sent.once("error", (error) => done(0, error.message));
    sent.end(body);
  });
}

parentPort?.on("message", (phase: Phase) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port has no origins
  void play(phase).then((results) => parentPort?.postMessage(results));
});
