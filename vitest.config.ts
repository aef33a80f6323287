import { generateKeyPairSync } from "node:crypto";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { Response } from "miniflare";
import { defineConfig } from "vitest/config";

// No key lives in the repository: each run makes its own.
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

/** Many files wait for local servers rather than compute: one worker a core would leave the cores idle. */
const WORKERS = 5;

export default defineConfig({
  test: {
    reporters: ["default", "./test/leaks.ts", "./test/tally.ts"],
    projects: [
      {
        test: {
          name: "node",
          environment: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/workerd/**", "test/e2e/**", "test/long/**"],
          setupFiles: ["./test/support/canaries.ts"],
          // Longer than any helper waits: that one says what it waited for. Lives that run side by side share a slow machine.
          testTimeout: 120_000,
          hookTimeout: 60_000,
          maxWorkers: WORKERS,
          // A third of all the time went into loading the same modules anew for each file. What the watch over secrets keeps, the only
          // state that outlives a file, is forgotten in between (test/support/watch.ts).
          isolate: false,
        },
      },
      {
        // Whole processes, when nothing else of the suite competes for the machine. They wait more than they compute: two at once.
        test: {
          name: "e2e",
          environment: "node",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 240_000,
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              bindings: {
                GITHUB_WEBHOOK_SECRET: "test-webhook-secret",
                GITHUB_WEBHOOK_SECRET_PREVIOUS: "",
                GITHUB_APP_ID: "1234",
                GITHUB_APP_PRIVATE_KEY: privateKey.export({ type: "pkcs1", format: "pem" }) as string,
                GITHUB_ALLOWED_REPOSITORIES: "101",
                GITHUB_API_URL: "https://github.test",
                RUNPOD_API_KEY: "test-runpod-key",
                RUNPOD_API_URL: "https://runpod.test",
                PUBLIC_URL: "https://gate.test",
                STATUS_PAGE: "on",
              },
              // Nothing leaves the machine: a request no test has answered is an error the test sees.
              outboundService: (request: Request) => new Response(`blocked: ${request.url}`, { status: 599 }),
            },
          }),
        ],
        test: {
          name: "workerd",
          include: ["test/workerd/**/*.test.ts"],
          testTimeout: 60_000,
          maxWorkers: WORKERS,
        },
      },
    ],
  },
});
