/** Ports of this machine for the Worker. */
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const HOST = "127.0.0.1";

/** Below it nothing else is likely to listen, and above 1,023 no right is needed. */
const LOWEST = 10_000;
/** Where the system takes ports for outgoing connections from, if it does not say (Linux: ip(7), `ip_local_port_range`). */
const USUAL_EPHEMERAL = 32_768;
const TRIES = 50;

/**
 * A port that is free now, and that stays free while its server is down for a moment: it is none of those that the system
 * gives to outgoing connections, one of which would keep a killed Worker from coming back.
 */
export async function freePort(): Promise<number> {
  const below = ephemeralFrom();
  if (below <= LOWEST) return await listenOnce(0);
  for (let tries = 0; tries < TRIES; tries += 1) {
    const port = randomInt(LOWEST, below);
    if ((await whyNotPort(port)) === null) return port;
  }
  return await listenOnce(0);
}

function ephemeralFrom(): number {
  try {
    const from = Number(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/)[0]);
    return Number.isInteger(from) ? from : USUAL_EPHEMERAL;
  } catch {
    return USUAL_EPHEMERAL;
  }
}

/** Why this port cannot be listened on, as a clause; null when it can. */
export async function whyNotPort(port: number): Promise<string | null> {
  try {
    await listenOnce(port);
    return null;
  } catch (error) {
    const code = String((error as { code?: unknown }).code);
    if (code === "EADDRINUSE") return `port ${port} is in use`;
    if (code === "EACCES") return `port ${port} may not be used by this account`;
    return `port ${port} cannot be used (${code})`;
  }
}

/** Listens and lets go again; gives the port, rejects with the system's error. */
function listenOnce(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, HOST, () => {
      const address = server.address();
      const got = typeof address === "object" && address !== null ? address.port : 0;
      server.close(() => resolve(got));
    });
  });
}
