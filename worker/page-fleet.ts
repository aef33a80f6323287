/**
 * The fleet board on the status page: what cron saw at its last tick, over all repositories.
 */
import { CRON_SILENCE_MS } from "./health.ts";
import { html, type Html } from "./html.ts";
import type { Status } from "./status.ts";
import { plural, stretch } from "./words.ts";

export function fleetSection(status: Status): Html {
  const { board } = status;
  if (board === null) {
    return html`<section class="fleet">
      <h2>Fleet</h2>
      <p class="empty">Cron has left nothing here yet; it runs once a minute.</p>
      ${ignoredNote(status)}
    </section>`;
  }
  const silent = status.at - board.at > CRON_SILENCE_MS;
  const open = board.gates.reduce((sum, gate) => sum + gate.open, 0);
  const overdue = board.gates.reduce((sum, gate) => sum + gate.overdue, 0);
  const mute = board.gates.filter((gate) => !gate.answered).length;
  const { pods } = board;
  return html`<section class="fleet">
    <h2>Fleet</h2>
    <dl class="facts">
      <div class="${silent ? "bad" : ""}">
        <dt>Last cron tick</dt>
        <dd><span data-since="${board.at}">${stretch(status.at - board.at)}</span> ago</dd>
      </div>
      <div class="${mute > 0 ? "bad" : ""}">
        <dt>Repositories</dt>
        <dd>${board.gates.length + board.moreGates}${mute > 0 ? `, ${mute} silent` : ""}</dd>
      </div>
      <div>
        <dt>Open requests</dt>
        <dd>${open}</dd>
      </div>
      <div class="${overdue > 0 ? "bad" : ""}">
        <dt>Overdue work</dt>
        <dd>${overdue}</dd>
      </div>
      ${
        pods === null
          ? html`<div class="bad">
              <dt>Pods</dt>
              <dd>RunPod's list was not readable</dd>
            </div>`
          : html`<div>
                <dt>Our pods</dt>
                <dd>${pods.own}</dd>
              </div>
              <div>
                <dt>Other people's pods</dt>
                <dd>${pods.foreign + pods.otherDeployments + pods.unclear}</dd>
              </div>
              <div class="${pods.handedOver + pods.deleted > 0 ? "bad" : ""}">
                <dt>Reaped at the last look</dt>
                <dd>${pods.handedOver + pods.deleted}${pods.suspected > 0 ? `, ${pods.suspected} suspected` : ""}</dd>
              </div>`
      }
    </dl>
    ${
      board.problems.length === 0
        ? null
        : html`<ul class="problems">
            ${board.problems.map((problem) => html`<li>${problem}</li>`)}
          </ul>`
    }
    ${ignoredNote(status)}
  </section>`;
}

/** What this isolate ignored or refused: seen, and not in anybody's way. */
function ignoredNote(status: Status): Html | null {
  const rows = Object.entries(status.tallies);
  if (rows.length === 0) return null;
  const total = rows.reduce((sum, [, count]) => sum + count, 0);
  return html`<details>
    <summary>${plural(total, "delivery", "deliveries")} that nothing had to be done for, or that were refused</summary>
    <ul class="tallies">
      ${rows.map(([name, count]) => html`<li>${count} × ${name}</li>`)}
    </ul>
  </details>`;
}
