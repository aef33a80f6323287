/** Every target. */
import type { Target } from "../target.ts";
import { config } from "./config.ts";
import { githubAnswers } from "./github-answers.ts";
import { lifeAnswers } from "./life-answers.ts";
import { oidc } from "./oidc.ts";
import { parsers } from "./parsers.ts";
import { routes } from "./routes.ts";
import { runpodAnswers } from "./runpod-answers.ts";
import { storedRows } from "./stored-rows.ts";
import { webhooksWorkerd } from "./webhooks-workerd.ts";
import { webhooks } from "./webhooks.ts";

export const targets: readonly Target[] = [
  webhooks,
  webhooksWorkerd,
  routes,
  oidc,
  config,
  runpodAnswers,
  githubAnswers,
  parsers,
  lifeAnswers,
  storedRows,
];
