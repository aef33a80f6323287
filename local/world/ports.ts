/** Ports of this machine for the Worker. */
import { createServer } from "node:net";

const HOST = "127.0.0.1";

/** A port that is free now. */
export async function freePort(): Promise<number> {
  return await listenOnce(0);
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
