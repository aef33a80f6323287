/**
 * The status page, rendered here and nowhere else: the fleet board, then each repository's pod in use, its queue and its
 * last verdicts. The script it carries ticks clocks and fetches this same page again; without it the page reloads itself.
 *
 * Titles are other people's text: everything inserted is escaped, and nothing outside this answer may be loaded.
 */
import { html, trusted, type Html } from "./html.ts";
import { fleetSection } from "./page-fleet.ts";
import { repositorySection } from "./page-repository.ts";
import { PAGE_SCRIPT } from "./page-script.ts";
import { PAGE_STYLE } from "./page-style.ts";
import type { Status } from "./status.ts";
import { instant, isoInstant } from "./words.ts";

export interface Page {
  readonly text: string;
  readonly contentSecurityPolicy: string;
}

/** `githubWebUrl` is where links to pull requests lead, without a trailing slash. */
export function statusPage(status: Status, githubWebUrl: string): Page {
  const nonce = crypto.randomUUID();
  const repositories = status.repositories.map((one) => repositorySection(one, githubWebUrl));
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>gpu-gate: ${status.deployment}</title>
        <noscript><meta http-equiv="refresh" content="10" /></noscript>
        <style nonce="${nonce}">
          ${trusted(PAGE_STYLE)}
        </style>
      </head>
      <body>
        <header class="top">
          <h1>gpu-gate</h1>
          <p>deployment <b>${status.deployment}</b></p>
        </header>
        <main data-now="${status.at}">
          <p class="asof">As of <time datetime="${isoInstant(status.at)}">${instant(status.at)}</time></p>
          ${fleetSection(status)} ${repositories.length === 0 ? nobody() : repositories}
        </main>
        <script nonce="${nonce}">
          ${trusted(PAGE_SCRIPT)};
        </script>
      </body>
    </html> `;
  return {
    text: page.text,
    contentSecurityPolicy: [
      "default-src 'none'",
      `style-src 'nonce-${nonce}'`,
      `script-src 'nonce-${nonce}'`,
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join("; "),
  };
}

function nobody(): Html {
  return html`<section>
    <p class="empty">No repository is on the allow-list: set GITHUB_ALLOWED_REPOSITORIES.</p>
  </section>`;
}
