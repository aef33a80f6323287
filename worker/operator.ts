/**
 * Who the operator is: whoever shows the deployment's `OPERATOR_TOKEN`. While no token is set there is no operator.
 */
import type { Settings } from "../durable-objects/settings.ts";

const BEARER = /^Bearer ([\x21-\x7e]{1,500})$/;

/** Both sides are hashed before they are compared, so that the time it takes tells nothing about the token. */
export async function isOperator(request: Request, settings: Settings): Promise<boolean> {
  const shown = BEARER.exec(request.headers.get("authorization") ?? "")?.[1];
  if (settings.operatorToken === undefined || shown === undefined) return false;
  const [a, b] = await Promise.all([digest(shown), digest(settings.operatorToken)]);
  let difference = a.length ^ b.length;
  for (let index = 0; index < a.length; index += 1) difference |= (a[index] ?? 0) ^ (b[index] ?? 0);
  return difference === 0;
}

async function digest(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}
