/** Why a server gave no answer, in words: `fetch` itself says "fetch failed" to nearly everything. */

/** The end of a sentence. Of the error only its kind is told: its text may hold an address with more in it than is meant. */
export function whyNoAnswer(error: unknown): string {
  if (!(error instanceof Error)) return "the connection failed";
  if (error.name === "TimeoutError" || error.name === "AbortError") return "it took too long";
  const code = codeOf(error) ?? codeOf(error.cause) ?? "";
  switch (code) {
    case "ECONNREFUSED":
      return "nothing listens there (connection refused)";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "no such host is known to this machine";
    case "ECONNRESET":
    case "EPIPE":
    case "UND_ERR_SOCKET":
      return "the connection was cut";
    case "ETIMEDOUT":
    case "UND_ERR_CONNECT_TIMEOUT":
    case "UND_ERR_HEADERS_TIMEOUT":
    case "UND_ERR_BODY_TIMEOUT":
      return "it took too long";
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "no network leads there";
  }
  if (/CERT|SIGNATURE|ERR_TLS|ERR_SSL/.test(code)) return `its certificate or its TLS is not accepted (${code})`;
  // Ports of other protocols, which `fetch` asks nobody at; it has no code for that.
  if (error.cause instanceof Error && error.cause.message === "bad port")
    return "that port belongs to another protocol";
  return code === "" ? "the connection failed" : `the connection failed (${code})`;
}

function codeOf(error: unknown): string | null {
  const code: unknown = typeof error === "object" && error !== null ? Reflect.get(error, "code") : null;
  return typeof code === "string" && /^[A-Z][A-Z0-9_]*$/.test(code) ? code : null;
}
