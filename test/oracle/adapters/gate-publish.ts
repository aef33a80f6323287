/**
 * Feeds the gate-publish corpus to the request's life and its check: each upstream job's result becomes what the state that
 * stands in its place is told, and the check's view says the rest. Upstream's two colours are told apart as success and
 * everything else; ours are finer. Local validation does not exist here: its label and comments are not read.
 */
import { checkView } from "../../../shared/lifecycle/check-view.ts";
import type { Outcomes } from "../../../shared/lifecycle/tasks.ts";
import {
  ADMISSION,
  execute,
  job,
  known,
  PROOF,
  PULL,
  requestIn,
  states,
  T0,
  TERMS,
  TEST_STEP,
} from "../../lifecycle/fixtures.ts";
import { outcomes } from "../../lifecycle/events.ts";
import { Story } from "../../lifecycle/story.ts";
import type { CorpusAdapter, CorpusCase } from "../adapter.ts";

interface Wanted {
  readonly conclusion: string;
  readonly kind: string;
  readonly failures: readonly string[];
  readonly externalId: string;
  readonly publishedTo: string;
}

const SCHEME = "runpod-gpu-gate:v1";

export const adapter: CorpusAdapter = {
  corpus: "gate-publish",
  run: (testCase) => {
    const wanted = testCase["expected"] as Wanted;
    const actual = publish(testCase);
    const pass =
      actual.conclusion === wanted.conclusion &&
      actual.kind === wanted.kind &&
      actual.externalId === wanted.externalId &&
      actual.publishedTo === wanted.publishedTo &&
      wanted.failures.length > 0 === (actual.conclusion !== "success");
    const text = textOf(testCase);
    if (text("localGpuValidation") === "true") {
      // Green needs a run of ours with evidence: what a label and a comment say changes nothing.
      const ran = text("gpuRequired") !== "true" || (text("decision") === "run" && text("execution") === "success");
      const reused = text("decision") === "reuse" && text("reusedUrl") !== "";
      const green = actual.conclusion === "success";
      return {
        pass: green ? ran || reused : true,
        expected: { localValidation: "not read" },
        actual,
        overruledBy: "no-local-word",
      };
    }
    if (!pass && wanted.conclusion === "success" && actual.conclusion !== "success" && text("decision") === "") {
      return {
        pass: true,
        expected: { ...wanted, conclusion: "no success" },
        actual,
        overruledBy: "green-needs-evidence",
      };
    }
    const bought = text("decision") === "run";
    if (
      !pass &&
      !bought &&
      actual.conclusion === "success" &&
      ["archive", "preGate", "authorize"].every((name) => text(name) === "success")
    ) {
      return { pass: true, expected: { conclusion: "success" }, actual, overruledBy: "nothing-bought-nothing-to-fail" };
    }
    return { pass, expected: wanted, actual };
  },
};

/** Every input of the corpus is text, and none is the empty one. */
function textOf(testCase: CorpusCase): (name: string) => string {
  return (name) => {
    const value = testCase[name];
    return typeof value === "string" ? value : "";
  };
}

/** One request's life, told by the jobs' results in the order in which they matter. */
function publish(testCase: CorpusCase): Omit<Wanted, "failures"> {
  const text = textOf(testCase);
  const good = (name: string) => text(name) === "success";
  const headSha = text("targetHeadSha");
  const admission = { ...ADMISSION, testedSha: text("testedRef") };
  const terms = { ...TERMS, workflows: { ...TERMS.workflows, trigger: null } };
  const story = new Story(requestIn(states.authorizing(), { headSha }));
  story.task = { task: { kind: "authorize" }, dueAt: T0 };
  let reused = false;
  let skipped = false;

  const required = text("gpuRequired");
  if (!good("authorize")) story.answer("authorize", outcomes.authorize.refused);
  else if (required === "true" || required === "false") {
    const gpuRequired = required === "true";
    story.answer("authorize", { kind: "admitted", terms, admission: { ...admission, gpuRequired } });
  } else {
    // No readable policy: the question is asked again, until it has been asked for long enough.
    while (story.kind === "authorizing") story.answer("authorize", outcomes.authorize.unknown);
  }
  if (story.kind === "preparing") prepare(story, good("archive"), good("preGate"));
  if (story.kind === "queued") {
    story.event({ kind: "lock-granted", fence: 1 });
    const decision = text("decision");
    reused = decision === "reuse" && text("reusedUrl") !== "";
    skipped = decision === "skip" && text("localGpuValidation") !== "true";
    const admitted = { ...outcomes.recheck.admitted, terms, admission: { ...admission, gpuRequired: !skipped } };
    story.answer("recheck", reused ? outcomes.recheck.reuse : admitted);
  }
  if (story.kind === "revalidating")
    story.answer("plan", good("contract") ? outcomes.plan.planned : outcomes.plan.refused);
  if (story.kind === "provisioning") {
    run(story, text("execution"), text("decision") === "run");
  }
  story.remove();

  const view = checkView(story.request, { place: null, waiting: 0, holder: null, etaMs: null });
  const conclusion = view.conclusion === "success" ? "success" : "failure";
  const kind =
    conclusion === "failure"
      ? "failed"
      : reused
        ? "reused"
        : skipped
          ? "skipped"
          : required === "false"
            ? "not-required"
            : "paid";
  const tested = story.request.admission?.testedSha ?? text("testedRef");
  return { conclusion, kind, externalId: `${SCHEME}:${tested}:${kind}`, publishedTo: story.request.headSha };
}

function prepare(story: Story, archive: boolean, preGate: boolean): void {
  story.answer("dispatch-prepare", outcomes["dispatch-prepare"].dispatched);
  const conclusion = archive ? "success" : "failure";
  story.observe({
    pull: known({ ...PULL, headSha: story.request.headSha }),
    prepareRun: known({
      status: "completed",
      conclusion,
      failedJobs: archive ? [] : ["archive"],
      artifacts: [],
      url: "u",
    }),
    preGate: known(preGate ? { kind: "ready" } : { kind: "failed", names: ["clippy"] }),
  });
}

/** A pod is bought and accepted; the job then does what the execution did. Without a decision to run, nothing ran. */
function run(story: Story, execution: string, decided: boolean): void {
  story.reachCreate();
  story.answer("create-pod", outcomes["create-pod"].created);
  const attempt = story.state("provisioning").attempt;
  story.event({ kind: "proof", attemptId: attempt?.id ?? "", proof: { ...PROOF, podId: attempt?.pod?.id ?? "" } });
  const pull = known({ ...PULL, headSha: story.request.headSha });
  const runner = attempt?.runner?.id ?? "";
  story.observe({ pull, ...sighting(), runner: known({ online: true, busy: false }) });
  const failed = { conclusion: "failure", steps: [{ name: TEST_STEP, status: "completed", conclusion: "failure" }] };
  const ended: Readonly<Record<string, Outcomes["observe"]["job"]>> = {
    success: known(execute(job({ runnerId: runner, ...(decided ? {} : { evidence: null }) }))),
    failure: known(execute(job({ runnerId: runner, ...failed }))),
    cancelled: known(execute(job({ runnerId: runner, conclusion: "cancelled" }))),
  };
  const nothing = known(execute(null, { runStatus: "completed", runConclusion: "skipped" }));
  story.observe({ pull, ...sighting(), job: ended[execution] ?? nothing });
}

function sighting(): Pick<Outcomes["observe"], "pod"> {
  const { created } = outcomes["create-pod"];
  return { pod: known({ pod: created.pod, getGone: false }) };
}
