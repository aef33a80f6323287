/**
 * Bundles the command line into one file that a hosted job runs with the runner's own Node, without an install.
 *
 * Runners bring Node 20 or newer, older than what the project itself is developed on; so the syntax is lowered to that.
 */
import { resolve } from "node:path";
import { build } from "esbuild";
import { optionsOf } from "../sim/options.ts";

export const BUNDLE_FILE = "dist/gpu-gate.mjs";
/** The oldest Node that the bundle runs on. */
export const BUNDLE_NODE_MAJOR = 20;

/** Writes the bundle; gives its size in bytes. */
export async function bundleCli(outfile: string): Promise<number> {
  const result = await build({
    entryPoints: [resolve(import.meta.dirname, "../cli/main.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: `node${BUNDLE_NODE_MAJOR}`,
    // Node knows this flag only from version 24 on, and a bundle is always the program itself.
    define: { "import.meta.main": "true" },
    // Some dependencies are CommonJS and ask for Node's own modules by require, which a module does not have.
    banner: {
      js: 'import { createRequire as gpuGateCreateRequire } from "node:module"; const require = gpuGateCreateRequire(import.meta.url);',
    },
    legalComments: "none",
    metafile: true,
    logLevel: "warning",
  });
  return Object.values(result.metafile.outputs).reduce((sum, output) => sum + output.bytes, 0);
}

if (import.meta.main) {
  const usage = `npm run bundle\n\nWrites the command line as one file, ${BUNDLE_FILE}, for hosted jobs (docs/workflows.md).\n`;
  optionsOf({ name: "npm run bundle", usage }, { options: {} });
  const bytes = await bundleCli(BUNDLE_FILE);
  console.log(`${BUNDLE_FILE}: ${bytes} bytes`);
}
