/** The JIT config a runner is started with: base64 of a JSON map from file name to base64 content. */

export interface RunnerSettings {
  readonly serverUrl: string;
  readonly workFolder: string;
  readonly name: string;
}

/** Reads the settings out of a JIT config. An error says what is wrong with it, never what is in it: it is a secret. */
export function readJitConfig(blob: string): RunnerSettings | { readonly problem: string } {
  const files = parse(blob);
  if (files === null) return { problem: "The JIT config is not base64 of a JSON object." };
  for (const name of [".runner", ".credentials", ".credentials_rsaparams"]) {
    if (typeof files[name] !== "string") return { problem: `The JIT config has no file ${name}.` };
  }
  const settings = parse(String(files[".runner"]));
  const serverUrl = settings?.["serverUrl"];
  if (typeof serverUrl !== "string") return { problem: "The JIT config names no server." };
  const text = (key: string, fallback: string): string => {
    const value = settings?.[key];
    return typeof value === "string" ? value : fallback;
  };
  return { serverUrl, workFolder: text("workFolder", "_work"), name: text("AgentName", "runner") };
}

function parse(base64: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(base64, "base64").toString("utf8"));
    return value !== null && typeof value === "object" ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
