/** Every target. */
import type { Target } from "../target.ts";
import { config } from "./config.ts";
import { githubAnswers } from "./github-answers.ts";
import { oidc } from "./oidc.ts";
import { parsers } from "./parsers.ts";
import { runpodAnswers } from "./runpod-answers.ts";
import { webhooks } from "./webhooks.ts";

export const targets: readonly Target[] = [webhooks, oidc, config, runpodAnswers, githubAnswers, parsers];
