/**
 * Says that a secret has come into being, to whoever in this process watches for leaks (test/support/canaries.ts). Nobody
 * listens outside of tests, and then it costs nothing.
 */
import { channel } from "node:diagnostics_channel";

export const MINTED = "gpu-gate:minted";

/** Stands in secrets that we make up ourselves: a text that holds it holds a secret, however it was cut. */
export const MARK = "canary-";

export interface Minted {
  readonly secret: string;
  /** The one place where it may be: an `Authorization` header to this origin, a file, the body of RunPod's create; or none. */
  readonly for: { readonly origin: string } | { readonly file: string } | "registration" | "nobody";
}

const minting = channel(MINTED);

/** Gives the secret back, so that it can stand where the secret is made. */
export function minted(secret: string, owner: Minted["for"]): string {
  if (minting.hasSubscribers) minting.publish({ secret, for: owner } satisfies Minted);
  return secret;
}
