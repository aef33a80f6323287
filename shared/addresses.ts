/**
 * Addresses that a secret may be sent to: over TLS, or to a server on this very machine (the local world).
 */

/** What is wrong with the address as a place to send a secret to, as the end of a sentence; null when nothing is. */
export function addressProblem(text: string): string | null {
  // A parser takes spaces and line breaks out, and whoever pastes the text elsewhere does not.
  // eslint-disable-next-line no-control-regex
  if (/[\s\u0000-\u001f\u007f]/.test(text)) return "has a space or a line break in it";
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return "is no https address";
  if (url.username !== "" || url.password !== "") return "must not carry a name or a password";
  if (url.search !== "" || url.hash !== "") return "must end before any ? or #";
  return url.protocol === "https:" || isThisMachine(url.hostname) ? null : "must begin with https://";
}

function isThisMachine(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/**
 * Whether a host's name says that it is on no public network: a literal address of this machine, of a private range or of
 * the link (where clouds keep their metadata), or a name without a dot.
 */
export function isPrivateHost(hostname: string): boolean {
  const host = hostname.replace(/\.$/, "").toLowerCase();
  // IPv6 literals of public servers are not used by anything here.
  if (host.startsWith("[") || !host.includes(".") || /\.(?:local|internal|localhost)$/.test(host)) return true;
  const parts = /^(\d{1,3})\.(\d{1,3})\.\d{1,3}\.\d{1,3}$/.exec(host);
  if (parts === null) return false;
  const [first, second] = [Number(parts[1]), Number(parts[2])];
  return (
    [0, 10, 127].includes(first) ||
    first >= 224 ||
    (first === 100 && second >= 64 && second < 128) ||
    (first === 169 && second === 254) ||
    (first === 172 && second >= 16 && second < 32) ||
    (first === 192 && second === 168)
  );
}
