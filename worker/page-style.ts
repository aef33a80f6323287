/** The status page's style: one column, light and dark, tables that become cards below 700 px. */
export const PAGE_STYLE = `
:root {
  --paper: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #5c6878; --line: #dde2e9; --link: #0b5cad;
  --good: #12713c; --good-bg: #dff3e6; --bad: #a4231c; --bad-bg: #fbe4e2; --wait: #7a5200; --wait-bg: #fbeecb;
  --none: #4a5565; --none-bg: #e8ecf1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #10151c; --card: #181f29; --ink: #e3e8ef; --soft: #97a3b4; --line: #2b3544; --link: #7db7f5;
    --good: #7fdca4; --good-bg: #133623; --bad: #ff9f97; --bad-bg: #44201d; --wait: #f1cc70; --wait-bg: #3d3110;
    --none: #b7c1ce; --none-bg: #2a3442;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
.top { display: flex; align-items: baseline; gap: 1rem; padding: 1rem max(1rem, calc((100% - 1240px) / 2)); border-bottom: 1px solid var(--line); background: var(--card); }
.top h1 { font-size: 1.25rem; margin: 0; letter-spacing: -0.01em; }
.top p { margin: 0; color: var(--soft); }
main { padding: 0.5rem max(1rem, calc((100% - 1240px) / 2)) 3rem; }
.stale main { opacity: 0.55; }
.asof { color: var(--soft); font-size: 0.85rem; margin: 0.5rem 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.25rem; margin-bottom: 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 0.75rem; }
h3 { font-size: 0.95rem; margin: 1.25rem 0 0.5rem; }
h3 small { font-weight: 400; color: var(--soft); }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
.empty { color: var(--soft); margin: 0.25rem 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.75rem; margin: 0; }
.facts dt { color: var(--soft); font-size: 0.8rem; }
.facts dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
.facts .bad dd { color: var(--bad); }
.problems { color: var(--bad); background: var(--bad-bg); border-radius: 8px; padding: 0.5rem 0.75rem; margin: 0.75rem 0 0; list-style: none; }
details { margin-top: 0.75rem; color: var(--soft); font-size: 0.85rem; }
.tallies { margin: 0.25rem 0; padding-left: 1.2rem; }
.pod { display: grid; grid-template-columns: minmax(0, 1.4fr) auto auto; gap: 0.1rem 2rem; align-items: baseline; border: 1px solid var(--line); border-left: 4px solid var(--good); border-radius: 8px; padding: 0.75rem 1rem; margin-bottom: 0.5rem; }
.pod p { margin: 0; }
.pod .gpu { font-weight: 600; }
.pod .clock, .pod .cost { font-size: 1.15rem; font-variant-numeric: tabular-nums; text-align: right; }
.pod .for { grid-column: 1; }
.pod .state { grid-column: 2 / 4; color: var(--soft); text-align: right; }
.pod .id { grid-column: 1 / 4; color: var(--soft); font-size: 0.8rem; }
table { width: 100%; border-collapse: collapse; font-size: 0.9rem; }
th { text-align: left; white-space: nowrap; color: var(--soft); font-weight: 500; font-size: 0.8rem; border-bottom: 1px solid var(--line); padding: 0.3rem 0.75rem 0.3rem 0; }
td { border-bottom: 1px solid var(--line); padding: 0.45rem 0.75rem 0.45rem 0; vertical-align: top; font-variant-numeric: tabular-nums; }
tr:last-child td { border-bottom: 0; }
td[data-label="When"], td[data-label="Price"], td[data-label="Paid"], td[data-label="Cost"], td[data-label="Open"] { white-space: nowrap; }
code { font: 0.85em ui-monospace, monospace; }
.detail { display: block; color: var(--soft); font-size: 0.85em; max-width: 26rem; }
.badge { display: inline-block; padding: 0.05rem 0.5rem; border-radius: 999px; font-size: 0.8rem; white-space: nowrap; color: var(--none); background: var(--none-bg); }
.badge.success { color: var(--good); background: var(--good-bg); }
.badge.failure, .badge.timed_out { color: var(--bad); background: var(--bad-bg); }
.badge.action_required { color: var(--wait); background: var(--wait-bg); }
.badge.lane-ready { color: var(--good); background: var(--good-bg); }
.badge.lane-open { color: var(--wait); background: var(--wait-bg); }
@media (max-width: 700px) {
  .pod { grid-template-columns: 1fr 1fr; }
  .pod .gpu, .pod .for, .pod .state, .pod .id { grid-column: 1 / 3; text-align: left; }
  .pod .clock { text-align: left; }
  thead { display: none; }
  tr { display: block; border: 1px solid var(--line); border-radius: 8px; padding: 0.4rem 0.75rem; margin-bottom: 0.5rem; }
  td, td[data-label] { display: grid; grid-template-columns: 5.5rem minmax(0, 1fr); gap: 0.5rem; border: 0; padding: 0.15rem 0; white-space: normal; }
  td[data-none] { display: none; }
  td::before { content: attr(data-label); color: var(--soft); font-size: 0.8rem; }
  td > * { grid-column: 2; }
}
`;
