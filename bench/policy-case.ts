/** The change and the configuration that both runtimes are measured with. */
import { configFrom } from "../shared/config/load.ts";
import type { RepositoryConfig } from "../shared/config/schema.ts";
import { plainFile } from "../shared/policy/changes.ts";
import type { Change } from "../shared/policy/classify.ts";

export const FILES = 3000;
export const PATTERNS = 200;

let config: RepositoryConfig | null = null;

/** 200 entries: half documentation and CI folders, half control files. */
export function benchConfig(): RepositoryConfig {
  const names = (count: number, make: (n: number) => string): string[] =>
    Array.from({ length: count }, (_, n) => make(n));
  config ??= configFrom({
    paths: {
      docs: { prefixes: names(50, (n) => `docs/part${n}/`) },
      ci: { prefixes: names(50, (n) => `ci/part${n}/`) },
    },
    lanes: { gpu: { control: { files: names(100, (n) => `ci/part${n % 50}/control${n}.sh`) } } },
  });
  return config;
}

/** Every path is light, so that none ends the look early. */
export function benchChange(): Change {
  const files = Array.from({ length: FILES }, (_, n) =>
    plainFile(`${n % 2 === 0 ? "docs" : "ci"}/part${n % 50}/some/deeper/folder/file-number-${n}.md`),
  );
  return { event: "pull_request", files, problem: null };
}
