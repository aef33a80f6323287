/**
 * The status page's own script. Ticks every `data-since` clock and every `data-rate` cost by the server's clock, and
 * every few seconds puts the page's newest `main` in place of the old one.
 */
export const PAGE_SCRIPT = `
(() => {
  const every = 5000;
  let ahead = 0;
  const main = () => document.querySelector("main");
  const sync = () => { ahead = Number(main().dataset.now) - Date.now(); };
  const words = (ms) => {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
  };
  const tick = () => {
    const now = Date.now() + ahead;
    for (const one of document.querySelectorAll("[data-since]")) {
      const ms = Math.max(0, now - Number(one.dataset.since));
      const usd = one.dataset.rate === undefined ? null : Number(one.dataset.rate) * ms / 3600000;
      one.textContent = usd === null ? words(ms) : "$" + usd.toFixed(usd < 0.1 ? 4 : 2);
    }
  };
  const refresh = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) {
        // Only the part that changes: the style around it has a nonce that is not this page's.
        const part = /<main[^]*<\\/main>/.exec(await answer.text())[0];
        const next = new DOMParser().parseFromString(part, "text/html").querySelector("main");
        for (const [index, details] of [...main().querySelectorAll("details")].entries()) {
          const twin = next.querySelectorAll("details")[index];
          if (twin !== undefined) twin.open = details.open;
        }
        main().replaceWith(next);
        sync();
        tick();
        document.body.classList.remove("stale");
      }
    } catch {
      document.body.classList.add("stale");
    }
    setTimeout(refresh, every);
  };
  sync();
  setInterval(tick, 1000);
  setTimeout(refresh, every);
})();
`;
