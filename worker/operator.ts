/**
 * Who the operator is: whoever shows the deployment's `OPERATOR_TOKEN`. While no token is set there is no operator.
 */
import type { Settings } from "../durable-objects/settings.ts";
import { sameSecret } from "../shared/same-secret.ts";

const BEARER = /^Bearer ([\x21-\x7e]{1,500})$/;

export async function isOperator(request: Request, settings: Settings): Promise<boolean> {
  const shown = BEARER.exec(request.headers.get("authorization") ?? "")?.[1];
  return settings.operatorToken !== undefined && shown !== undefined && sameSecret(shown, settings.operatorToken);
}
