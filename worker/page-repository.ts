/**
 * One repository on the status page: the pod in use with its clock and cost, the queue, what else is open, the last verdicts.
 */
import type { WindowMoney } from "../durable-objects/gate/money-view.ts";
import type { GateView, PodView, RequestView } from "../durable-objects/gate/view.ts";
import { html, type Html } from "./html.ts";
import type { RepositoryStatus } from "./status.ts";
import { dollars, instant, isoInstant, plural, stretch } from "./words.ts";

/** Verdicts shown; the whole list is in `/api/status`. */
const VERDICTS_SHOWN = 25;

export function repositorySection(one: RepositoryStatus, githubWebUrl: string): Html {
  const { view } = one;
  if (view === null) {
    return html`<section>
      <h2>Repository ${one.id}</h2>
      <p class="problems">Its gate did not answer.</p>
    </section>`;
  }
  if (view.repository === null) {
    return html`<section>
      <h2>Repository ${one.id}</h2>
      <p class="empty">Nothing has been heard of it yet.</p>
    </section>`;
  }
  const base = `${githubWebUrl}/${view.repository.split("/").map(encodeURIComponent).join("/")}`;
  const waiting = new Set(view.queue.map((request) => request.id));
  const others = view.open.filter((request) => !waiting.has(request.id));
  const ended = view.recent.filter((request) => request.verdict !== null).slice(0, VERDICTS_SHOWN);
  return html`<section>
    <h2><a href="${base}">${view.repository}</a></h2>
    <h3>Pod in use</h3>
    ${view.pods.length === 0 ? html`<p class="empty">None: nothing is being paid for.</p>` : view.pods.map((pod) => podCard(pod, view, base))}
    ${spending(view)}
    <h3>Queue <small>${queueWords(view)}</small></h3>
    ${view.queue.length === 0 ? html`<p class="empty">Nobody waits.</p>` : queueTable(view, base)}
    ${
      others.length === 0
        ? null
        : html`<h3>Under way</h3>
            ${openTable(others, view, base)}`
    }
    ${
      view.lanes.length === 0
        ? null
        : html`<h3>Lanes on own machines <small>${laneWords(view)}</small></h3>
            ${laneTable(view)}`
    }
    <h3>Last verdicts</h3>
    ${ended.length === 0 ? html`<p class="empty">None yet.</p>` : verdictTable(ended, view, base)}
  </section>`;
}

/** Money of the day and of the month beside their caps. */
function spending({ money }: GateView): Html {
  const fact = (name: string, { spent, reserved, cap }: WindowMoney): Html => {
    const full = cap !== null && spent + reserved >= cap;
    return html`<div class="${full ? "bad" : ""}">
      <dt>${name}</dt>
      <dd>
        ${dollars(spent)}${cap === null ? "" : ` of ${dollars(cap)}`}
        ${reserved === 0 ? null : html`<small>and up to ${dollars(reserved)} set aside</small>`}
      </dd>
    </div>`;
  };
  return html`<h3>Spent</h3>
    <dl class="facts">${fact("Today (UTC)", money.day)}${fact("This month (UTC)", money.month)}</dl>`;
}

function queueWords(view: GateView): string {
  if (view.lock.holder === null) return "the lock is free";
  return view.lock.since === null ? "the lock is held" : `the lock is held for ${stretch(view.at - view.lock.since)}`;
}

function podCard(pod: PodView, view: GateView, base: string): Html {
  const request = [...view.open, ...view.recent].find((one) => one.id === pod.requestId);
  const rate = pod.pricePerHour;
  return html`<article class="pod">
    <p class="gpu">${pod.gpu ?? "GPU not told yet"}</p>
    <p class="clock"><span data-since="${pod.since}">${stretch(view.at - pod.since)}</span></p>
    <p class="cost">
      ${
        rate === null || pod.costMicros === null
          ? "price not told yet"
          : html`<span data-since="${pod.since}" data-rate="${rate}">${dollars(pod.costMicros)}</span> at
              $${rate.toFixed(2)}/h`
      }
    </p>
    <p class="for">${request === undefined ? pod.requestId : html`${subject(request, base)} ${request.title}`}</p>
    <p class="state">${keptWords(pod) ?? request?.headline ?? ""}</p>
    <p class="id">pod ${pod.podId}</p>
  </article>`;
}

/** Null for a pod that works. */
function keptWords(pod: PodView): string | null {
  if (pod.retainedUntil === undefined) return null;
  return `kept for debugging until ${instant(pod.retainedUntil)} on the word of ${pod.retainedBy ?? "somebody"}`;
}

function queueTable(view: GateView, base: string): Html {
  return table(
    ["Place", "Request", "Title", "Open"],
    view.queue.map((request, index) => [
      html`${index + 1}`,
      subject(request, base),
      html`${request.title}`,
      html`<span data-since="${request.openedAt}">${stretch(view.at - request.openedAt)}</span>`,
    ]),
  );
}

function openTable(requests: readonly RequestView[], view: GateView, base: string): Html {
  return table(
    ["Request", "Title", "State", "Open"],
    requests.map((request) => [
      subject(request, base),
      html`${request.title}`,
      html`<span class="badge ${request.state}">${request.state}</span> ${request.headline}`,
      html`<span data-since="${request.openedAt}">${stretch(view.at - request.openedAt)}</span>`,
    ]),
  );
}

function laneWords(view: GateView): string {
  const open = view.lanes.filter((lane) => lane.state === "OPEN").length;
  return open === 0 ? "all ready" : `${open} of ${view.lanes.length} open`;
}

/** A lane without a machine is open state: its checks are NOT RUN, which is neither passed nor failed. */
function laneTable(view: GateView): Html {
  return table(
    ["Lane", "State", "Switch", "Labels", "Checks", "Why", "Looked at"],
    view.lanes.map((lane) => [
      lane.runbook === null ? html`${lane.name}` : html`<a href="${lane.runbook}">${lane.name}</a>`,
      laneState(lane),
      html`<code>${lane.switchName}</code>${laneSwitch(lane)}`,
      html`<code>${lane.labels.join(" ")}</code>`,
      html`${lane.checks.length === 0 ? "–" : lane.checks.join(", ")}`,
      html`${lane.why}`,
      lane.seenAt === null
        ? html`–`
        : html`<span data-since="${lane.seenAt}">${stretch(view.at - lane.seenAt)}</span> ago`,
    ]),
  );
}

type LaneView = GateView["lanes"][number];

function laneState(lane: LaneView): Html {
  const badge = html`<span class="badge lane-${lane.state.toLowerCase()}">${lane.state}</span>`;
  return lane.word === "" ? badge : html`${badge} <b>${lane.word}</b>`;
}

/** A switch that is not set is off; one that could not be read is neither. */
function laneSwitch(lane: LaneView): Html | null {
  if (lane.seenAt === null) return null;
  if (lane.switchValue !== null) return html` is <code>${lane.switchValue}</code>`;
  return html` is ${lane.code === "lane-disabled" ? "not set" : "not readable"}`;
}

/** What a request has cost, with the pods that are kept of it until now. */
function costOf(request: RequestView, { pods }: GateView): Html {
  if (request.pods === 0) return html`–`;
  const kept = pods.filter((pod) => pod.requestId === request.id);
  const micros = kept.reduce((sum, pod) => sum + (pod.costMicros ?? 0), request.costMicros);
  return html`${dollars(micros)}${kept.length === 0 ? "" : " so far"}`;
}

function verdictTable(requests: readonly RequestView[], view: GateView, base: string): Html {
  return table(
    ["Request", "Verdict", "GPU", "Price", "Paid", "Cost", "Reason", "When"],
    requests.map((request) => [
      html`${subject(request, base)} ${request.title}`,
      html`<span class="badge ${request.conclusion ?? ""}">${request.verdict ?? ""}</span>`,
      html`${request.gpu ?? "–"}`,
      html`${request.pricePerHour === null ? "–" : `$${request.pricePerHour.toFixed(2)}/h`}`,
      html`${request.pods === 0 ? "–" : stretch(request.paidMs)}${request.pods > 1 ? ` (${plural(request.pods, "pod")})` : ""}`,
      costOf(request, view),
      html`<code>${request.reason ?? ""}</code><span class="detail">${request.detail ?? ""}</span>`,
      request.concludedAt === null
        ? html``
        : html`<time datetime="${isoInstant(request.concludedAt)}">${instant(request.concludedAt)}</time>`,
    ]),
  );
}

/** A table that becomes a list of cards on a narrow screen: each cell carries its heading. */
function table(headings: readonly string[], rows: readonly (readonly Html[])[]): Html {
  return html`<table>
    <thead>
      <tr>
        ${headings.map((heading) => html`<th scope="col">${heading}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (cells) =>
          html`<tr>
            ${cells.map((cell, index) => tableCell(headings[index] ?? "", cell))}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** A cell that says nothing is left out where cells stand below each other. */
function tableCell(heading: string, cell: Html): Html {
  return cell.text === "–"
    ? html`<td data-label="${heading}" data-none><div>–</div></td>`
    : html`<td data-label="${heading}"><div>${cell}</div></td>`;
}

function subject(request: RequestView, base: string): Html {
  const commit = request.headSha.slice(0, 7);
  return request.prNumber === null
    ? html`<a href="${base}/commit/${request.headSha}"><code>${commit}</code></a>`
    : html`<a href="${base}/pull/${request.prNumber}">#${request.prNumber}</a>`;
}
