/** A real browser for pages: the machine's own Chromium, where it has one. Nothing is downloaded here. */
import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where the browser is; null: there is none, and the tests that need one skip with that as their reason. */
export const BROWSER_PATH: string | null = PLACES.find((path) => existsSync(path)) ?? null;

/** Starts it without anything that would call home. The caller closes it. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: BROWSER_PATH ?? "",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
