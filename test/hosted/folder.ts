/** Temporary folders that the test removes, and small helpers to fill them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";

/** A fresh folder, gone when the test that asked for it is over. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "gpu-gate-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes files by relative path, making folders on the way; gives back the folder. */
export function fill(folder: string, files: Readonly<Record<string, string | Uint8Array>>): string {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

/** Bytes that look random but are the same in every run (xorshift), so a failure can be reproduced. */
export function noise(length: number, seed: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = (seed * 2_654_435_761) >>> 0 || 1;
  for (let index = 0; index < words.length; index += 1) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[index] = state >>> 0;
  }
  return new Uint8Array(words.buffer, 0, length);
}
