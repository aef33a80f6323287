import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { gateView } from "../../durable-objects/gate/view.ts";
import { Aggregates } from "../../durable-objects/gate/aggregates.ts";
import { rentedRunnerIds } from "../../durable-objects/gate/dispatched.ts";
import { CI, SLOW_TESTS } from "../../local/world/workflows.ts";
import { AGGREGATE, CONFIG, LABELS, RUNBOOK, startLaneWorld, waysOf, type LaneWorld } from "./lanes.ts";
import { CONFIG as LIFE, startLife } from "./life.ts";

const GPU = "GPU_COVERAGE_ENABLED";
const RUNNERS = /\/actions\/runners$/;

describe("the probe against the local GitHub, asked by a hosted job and through the workflow API", () => {
  let world: LaneWorld;
  let from = 0;
  let machines: { remove(): void }[] = [];

  beforeAll(async () => {
    world = await startLaneWorld();
    world.open();
  });
  afterAll(() => world.close());
  beforeEach(() => {
    for (const machine of machines) machine.remove();
    machines = [];
    world.github.faults.clear();
    world.setSwitch(GPU, "true");
    from = world.github.books.requests.length;
  });

  const register = (name: string, labels: readonly string[], online = true): void => {
    machines.push(world.repository.registerRunner({ name, labels, online }));
  };
  const both = async (lane = "coverage_gpu") => {
    const answers = [];
    for (const way of world.ways) answers.push({ way: way.name, ...(await way.ask(lane)) });
    return answers;
  };
  const every = (expected: object) => world.ways.map((way) => expect.objectContaining({ way: way.name, ...expected }));

  it.each([[null], ["false"], ["True"], [" true"], ["true "]])(
    "switch %j: a clean skip that asks for no runner, whatever is registered and even if GitHub would refuse",
    async (value) => {
      register("desk", LABELS);
      world.setSwitch(GPU, value);
      world.github.faults.next({ path: RUNNERS }, { status: 503 }, 10);
      const off = { enabled: false, registered: false, available: false, red: false, code: "lane-disabled" };
      expect(await both()).toEqual(every(off));
      expect(world.asked(from)).toEqual([]);
    },
  );

  it("on and online: admitted, one page asked each", async () => {
    register("desk", ["self-hosted", "Linux", "X64", "gpu-full"]);
    expect(await both()).toEqual(
      every({ enabled: true, registered: true, available: true, red: false, code: "lane-available" }),
    );
    expect(world.asked(from)).toHaveLength(world.ways.length);
  });

  it("on and offline: red, registered, with the runbook and the machine's name", async () => {
    register("desk", LABELS, false);
    const answers = await both();
    expect(answers).toEqual(every({ registered: true, available: false, red: true, code: "lane-offline" }));
    for (const { message } of answers) expect(message).toContain("desk (offline)");
    for (const { message } of answers) expect(message).toContain(`Runbook: ${RUNBOOK}`);
  });

  it("on and only partial labels, which do not add up: red, and the message says what is missing", async () => {
    register("half", ["self-hosted", "linux"]);
    register("other-half", ["gpu-full"]);
    register("near", ["self-hosted", "linux", "gpu-full-2"]);
    const answers = await both();
    expect(answers).toEqual(every({ registered: false, available: false, red: true, code: "lane-no-match" }));
    for (const { message } of answers) expect(message).toContain("lacks gpu-full");
  });

  it.each([
    ["503", { status: 503 }],
    ["403", { status: 403, body: { message: "Resource not accessible by integration" } }],
    ["no answer at all", "drop"],
    ["something that is no JSON", { status: 200, body: "<html>" }],
  ] as const)("on and the API answers %s: red, although the machine is there", async (_, fault) => {
    register("desk", LABELS);
    world.github.faults.next({ path: RUNNERS }, fault, 10);
    expect(await both()).toEqual(every({ registered: false, available: false, red: true, code: "lane-probe-failed" }));
  });

  it("on and nothing is registered: red", async () => {
    expect(await both()).toEqual(every({ registered: false, available: false, red: true, code: "lane-no-match" }));
  });

  it("N137: the 101st runner is the match, one page for each hundred", async () => {
    for (let index = 1; index <= 100; index += 1) register(`crowd-${index}`, ["self-hosted", "linux"]);
    register("desk", LABELS);
    expect(await both()).toEqual(every({ registered: true, available: true, red: false }));
    const pages = world.asked(from).map((path) => /page=(\d+)$/.exec(path)?.[1]);
    expect(pages).toEqual(world.ways.flatMap(() => ["1", "2"]));
  });

  it("answers anew each time: what was there a moment ago admits nobody now", async () => {
    register("desk", LABELS);
    expect(await both()).toEqual(every({ available: true }));
    for (const machine of machines) machine.remove();
    machines = [];
    expect(await both()).toEqual(every({ available: false, red: true }));
  });

  it("whatever was asked and judged, nothing of the maintainers' was written: no runner, no variable", async () => {
    register("desk", LABELS);
    await both();
    await world.reconcile();
    const writes = world.github.books.requests.filter(
      ({ method, path }) => method !== "GET" && /\/actions\/(?:runners|variables)/.test(path),
    );
    expect(writes.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
  });

  it("N67: a rented machine is no lane's capacity, even if it carries every label", async () => {
    world.setSwitch("ANYTHING_ENABLED", "true");
    register("gpu-gate-test-101-r1-1", ["self-hosted", "gpu-gate-5f1c0d9e8b7a695847362514"]);
    expect(await both("anything")).toEqual(every({ registered: false, available: false, code: "lane-no-match" }));
    register("desk", ["self-hosted"]);
    expect(await both("anything")).toEqual(every({ available: true }));
  });
});

it("N67: the machine that is being rented right now is online and still nobody's own capacity", async () => {
  const config = `${LIFE}lanes: { anything: { own: { runs_on: [self-hosted], switch: ANYTHING_ENABLED } } }\n`;
  const day = await startLife({ config });
  try {
    const { github, repository } = day;
    const jobs = ["rustfmt", "clippy"].map((name) => ({ name, steps: [{ name: `Run ${name}`, durationMs: 50 }] }));
    const asking = { name: "plan", steps: [{ name: "Probe", durationMs: 600_000 }] };
    github.setWorkflowScript(CI, { name: "CI", on: ["pull_request"], plan: () => ({ jobs: [...jobs, asking] }) });
    repository.setVariable("ANYTHING_ENABLED", "true");
    const head = day.openCode("matmul", { [SLOW_TESTS]: "" });
    await day.until(head, "its tests", ({ state }) => state.kind === "executing" && state.testsStarted);
    const [rented] = rentedRunnerIds(day.gate.store);
    const ways = waysOf(day, config, repository, () => "true");
    for (const way of ways) {
      expect(await way.ask("anything"), way.name).toMatchObject({ available: false, red: true, code: "lane-no-match" });
    }
    const desk = repository.registerRunner({ name: "desk", labels: ["self-hosted"] });
    for (const way of ways) expect(await way.ask("anything"), way.name).toMatchObject({ available: true });
    expect(rented).toMatch(/^\d+$/);
    expect(rented).not.toBe(String(desk.id));
    repository.close(1);
    await day.concluded(head);
  } finally {
    await day.close();
  }
});

describe("the aggregator's check", () => {
  let world: LaneWorld;

  beforeAll(async () => {
    world = await startLaneWorld();
  });
  afterAll(() => world.close());
  beforeEach(() => {
    world.setSwitch(GPU, null);
    world.github.faults.clear();
  });

  const report = (head: string, name: string, conclusion: "success" | "failure" | "skipped" | null, id?: number) =>
    world.repository.reportCheck(head, { name, conclusion, ...(id === undefined ? {} : { id }) });
  const row = (summary: string | null, name: string) =>
    (summary ?? "").split("\n").find((line) => line.startsWith(`| ${name} |`)) ?? "no row";
  const lookedAt = (head: string) => new Aggregates(world.sql, world.gate.store).row(head)?.record;
  const finished = (head: string, conclusion: string) =>
    world.says(head, conclusion, (run) => run.conclusion === conclusion);

  it("is there at once, waits, and turns green by what it hears: the table says why", async () => {
    // Nothing is reported before the check is seen to wait: the grace has to outlast that.
    const patient = await startLaneWorld(CONFIG.replace("registration_grace: 1.5", "registration_grace: 6"));
    try {
      const { github, repository } = patient;
      const { head } = patient.open();
      await patient.says(head, "a check", () => true);
      const unit = repository.reportCheck(head, { name: "Unit tests" });
      repository.reportCheck(head, { name: "Docs", conclusion: "skipped" });
      repository.reportCheck(head, { name: "Unit tests", conclusion: "success", id: unit });
      const run = await patient.says(head, "success", ({ conclusion }) => conclusion === "success");
      expect(run.title).toBe("All 3 required checks are accepted");
      expect(row(run.summary, "Docs")).toBe("| Docs | skipped | yes | skipped |");
      expect(row(run.summary, "Unit tests")).toBe("| Unit tests | success | yes | success |");
      expect(row(run.summary, "Coverage GPU")).toMatch(/\| NOT RUN \| yes \| lane is off/);
      expect(patient.aggregates(head)).toHaveLength(1);
      expect(run.appId).toBe(Number(github.appId));
      const said = github.books.checkWrites.filter((write) => write.checkRunId === run.id);
      expect(said[0]).toMatchObject({ status: "in_progress", title: "Waiting for Docs, Unit tests, Coverage GPU" });
    } finally {
      await patient.close();
    }
  });

  it("a lane that is on and whose probe failed is red as that, with its runbook", async () => {
    world.setSwitch(GPU, "true");
    const { head } = world.open();
    report(head, "Docs", "success");
    report(head, "Unit tests", "success");
    report(head, "Probe GPU Full Runner", "failure");
    report(head, "Coverage GPU", "skipped");
    const run = await finished(head, "failure");
    expect(run.title).toBe("1 of 3 not accepted: Coverage GPU");
    expect(run.summary).toContain("**Lane `coverage_gpu` is on, but its probe `Probe GPU Full Runner` ended failure**");
    expect(run.summary).toContain(`[Runbook](${RUNBOOK})`);
    expect(row(run.summary, "Coverage GPU")).toContain("| skipped | **no** | lane is on but its job was skipped");
  });

  it("waits for a lane's job while its probe runs, then for its success", async () => {
    world.setSwitch(GPU, "true");
    const { head } = world.open();
    report(head, "Docs", "success");
    report(head, "Unit tests", "success");
    const probe = report(head, "Probe GPU Full Runner", null);
    await world.says(head, "a wait for the lane", (run) => run.title === "Waiting for Coverage GPU");
    report(head, "Probe GPU Full Runner", "success", probe);
    report(head, "Coverage GPU", "success");
    const run = await finished(head, "success");
    expect(row(run.summary, "Coverage GPU")).toBe(
      "| Coverage GPU | success | yes | success on the lane's own machine |",
    );
  });

  it("a re-run after the answer is a new check run; the completed one is never written again", async () => {
    const { head } = world.open();
    report(head, "Unit tests", "failure");
    await finished(head, "failure");
    const rerun = report(head, "Unit tests", null);
    await world.says(head, "a new wait", (run) => run.status === "in_progress");
    report(head, "Unit tests", "success", rerun);
    await finished(head, "success");
    expect(world.aggregates(head).map((run) => run.conclusion)).toEqual(["failure", "success"]);
    expect(world.github.books.checkWrites.filter((write) => write.name === AGGREGATE && write.afterCompleted)).toEqual(
      [],
    );
  });

  it("reports another App's look-alike and does not count it", async () => {
    const { head } = world.open();
    report(head, "Unit tests", "failure");
    world.repository.reportCheck(head, { name: "Unit tests", appId: 666, conclusion: "success" });
    const run = await finished(head, "failure");
    expect(run.summary).toContain("| Unit tests | success | ignored | made by another App (666) |");
  });

  it("N97: a check of its own name is another App's forgery: audited, told in the table, never an input", async () => {
    const { head } = world.open();
    world.repository.reportCheck(head, { name: AGGREGATE, appId: 666, conclusion: "success" });
    report(head, "Unit tests", "failure");
    const own = () => world.aggregates(head).filter((run) => run.appId !== 666);
    await expect.poll(() => own().at(-1)?.conclusion, { timeout: 10_000 }).toBe("failure");
    expect(own()).toHaveLength(1);
    expect(row(own()[0]?.summary ?? "", AGGREGATE)).toBe(
      `| ${AGGREGATE} | success | ignored | made by another App (666) |`,
    );
    const noted = world.sql.exec<{ facts: string }>(`SELECT facts FROM audit WHERE act = 'aggregate.look-alike'`);
    expect(noted.map(({ facts }) => facts).filter((facts) => facts.includes(head))).toEqual([
      JSON.stringify({ head, name: AGGREGATE, app: "666", conclusion: "success" }),
    ]);
  });

  it("a draft is never green; ready, it is judged", async () => {
    const { head, number } = world.open({ draft: true });
    report(head, "Docs", "success");
    report(head, "Unit tests", "success");
    report(head, "Coverage GPU", "success");
    const draft = await world.says(head, "the whole table", (run) => row(run.summary, "Docs").includes("success"));
    expect(draft).toMatchObject({ status: "queued", conclusion: null, title: "Draft: never green before it is ready" });
    world.repository.setDraft(number, false);
    await finished(head, "success");
    world.repository.setDraft(number, true);
    expect(await world.says(head, "a draft again", (run) => run.status === "queued")).toMatchObject({
      conclusion: null,
    });
  });

  it("a lane's job that still waits for a machine when the time is over times out", async () => {
    const slow = await startLaneWorld(CONFIG.replace("timeout: 60", "timeout: 3"));
    try {
      slow.setSwitch(GPU, "true");
      const { head } = slow.open();
      slow.repository.reportCheck(head, { name: "Unit tests", conclusion: "success" });
      slow.repository.reportCheck(head, { name: "Coverage GPU", status: "queued" });
      const run = await slow.says(head, "a time-out", (said) => said.status === "completed");
      expect(run).toMatchObject({ conclusion: "timed_out", title: expect.stringContaining("Coverage GPU") as string });
      expect(row(run.summary, "Coverage GPU")).toBe("| Coverage GPU | queued | **no** | still running |");
    } finally {
      await slow.close();
    }
  });

  it("a switch that cannot be read is neither off nor on: nothing is concluded before it can", async () => {
    const { head } = world.open();
    world.github.faults.next({ path: /\/actions\/variables\// }, { status: 500 }, 3);
    report(head, "Docs", "success");
    report(head, "Unit tests", "success");
    const trouble = await world.says(head, "the trouble", (run) => run.title === "Cannot be judged yet");
    expect(trouble.summary).toContain(`The switch ${GPU} cannot be read`);
    await finished(head, "success");
  });

  it("a head that moved and a pull request that closed leave no check hanging", async () => {
    const { head, number } = world.open();
    report(head, "Unit tests", null);
    await world.says(head, "a waiting check", (run) => run.status === "in_progress");
    const next = world.repository.push(number, { files: { "docs/guide.md": "# moved\n" } });
    report(next, "Unit tests", null);
    expect(await finished(head, "cancelled")).toMatchObject({ title: "Superseded by a newer commit" });
    await world.says(next, "a waiting check", (run) => run.status === "in_progress");
    world.repository.close(number);
    expect(await finished(next, "cancelled")).toMatchObject({ title: "The pull request was closed" });
    world.repository.reopen(number);
    await world.says(next, "a new wait", (run) => run.status === "in_progress");
  });

  it('"Re-run" on it judges again and rents nothing', async () => {
    const { head } = world.open();
    report(head, "Unit tests", "success");
    const { id } = await finished(head, "success");
    const requests = world.gate.store.requestsOfHead(head, "pull-request").length;
    world.repository.rerequestCheck(id, "mira");
    await expect.poll(() => world.aggregates(head).length, { timeout: 10_000 }).toBe(2);
    await finished(head, "success");
    expect(world.gate.store.requestsOfHead(head, "pull-request")).toHaveLength(requests);
  });

  it("nothing polls: a head at rest costs no call until somebody is heard", async () => {
    const { head } = world.open();
    report(head, "Unit tests", "success");
    await finished(head, "success");
    await world.gate.run();
    const task = world.gate.store.taskOf("aggregate", head);
    expect(task?.startedAt).toBeNull();
    // The next look by itself is a whole round of reconciling away.
    expect((task?.dueAt ?? 0) - Date.now()).toBeGreaterThan(30_000);
  });

  it("lost webhooks change only the time: reconciling finds the head, and what became of it", async () => {
    const deaf = await startLaneWorld();
    try {
      const known = deaf.open();
      deaf.repository.reportCheck(known.head, { name: "Unit tests" });
      await deaf.says(known.head, "a waiting check", (run) => run.status === "in_progress");
      deaf.github.webhooks.configure({ url: null });
      const { head } = deaf.open();
      deaf.repository.reportCheck(head, { name: "Unit tests", conclusion: "success" });
      deaf.repository.close(known.number);
      await deaf.reconcile();
      const found = await deaf.says(head, "an end", (run) => run.status === "completed");
      expect(found.conclusion).toBe("success");
      const closed = await deaf.says(known.head, "an end", (run) => run.status === "completed");
      expect(closed.conclusion).toBe("cancelled");
    } finally {
      await deaf.close();
    }
  });

  it.each([["500"], ["none"]])("a conclusion whose answer was lost (%s) is not written twice", async (answer) => {
    const { head } = world.open();
    // It runs until then: the time for a check to appear at all may end before the gate's own has.
    const unit = report(head, "Unit tests", null);
    await world.says(head, "a waiting check", (run) => run.status === "in_progress");
    const gates = () => world.repository.checkRuns(head).find((run) => run.name === "CI GPU gate")?.status;
    // The gate's own check has had its say, so the next write is the aggregator's.
    await expect.poll(gates, { timeout: 10_000 }).toBe("completed");
    const fault = answer === "500" ? "done-but-500" : "done-but-drop";
    world.github.faults.next({ method: "PATCH", path: /\/check-runs\/\d+$/ }, fault);
    report(head, "Unit tests", "success", unit);
    await expect.poll(() => lookedAt(head)?.check.completed, { timeout: 20_000 }).toBe(true);
    expect(world.aggregates(head).map((run) => run.conclusion)).toEqual(["success"]);
    const late = world.github.books.checkWrites.filter((write) => write.headSha === head && write.afterCompleted);
    expect(late).toEqual([]);
  });

  it("a create whose answer was lost is found again, not made twice", async () => {
    world.github.faults.next({ method: "POST", path: /\/check-runs$/ }, "done-but-drop", 2);
    const { head } = world.open();
    report(head, "Unit tests", "success");
    await finished(head, "success");
    expect(world.aggregates(head)).toHaveLength(1);
  });
});

describe("lanes on the status page", () => {
  let world: LaneWorld;

  beforeAll(async () => {
    world = await startLaneWorld();
    world.open();
  });
  afterAll(() => world.close());

  it("are open state and NOT RUN until a machine stands behind them, and never passed", async () => {
    const lane = () =>
      gateView(world.gate.store, world.sql, Date.now()).lanes.find(({ name }) => name === "coverage_gpu");
    await expect.poll(lane, { timeout: 10_000 }).toMatchObject({ state: "OPEN", word: "NOT RUN", seenAt: null });
    await world.reconcile();
    expect(lane()).toMatchObject({ state: "OPEN", word: "NOT RUN", switchValue: null, code: "lane-disabled" });
    world.setSwitch(GPU, "true");
    await world.reconcile();
    expect(lane()).toMatchObject({ state: "OPEN", word: "NOT RUN", switchValue: "true", code: "lane-no-match" });
    const desk = world.repository.registerRunner({ name: "desk", labels: LABELS });
    await world.reconcile();
    expect(lane()).toMatchObject({ state: "READY", word: "", code: "lane-available" });
    desk.setOnline(false);
    await world.reconcile();
    expect(lane()).toMatchObject({ state: "OPEN", word: "NOT RUN", code: "lane-offline" });
    // What was seen too long ago says nothing.
    expect(gateView(world.gate.store, world.sql, Date.now() + 3_600_000).lanes[0]).toMatchObject({
      state: "OPEN",
      seenAt: null,
    });
  });
});
