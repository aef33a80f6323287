import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GPU_GATE_TAGS, ownedBy, ownershipTags, podName, tagNames, tagsFromEnv } from "../../shared/runpod/tags.ts";

const OWNER = {
  deployment: "acme",
  repositoryId: "9007199254740993",
  requestId: "r-1",
  attemptId: "a-1",
  runId: "42",
  keep: "false",
};
const TAGS = ownershipTags(OWNER);
const POD = { id: "pod1", name: podName(OWNER), tags: TAGS };

describe("writing tags", () => {
  test("every field has a tag, and ids keep all their digits", () => {
    expect(TAGS).toEqual({
      GPU_GATE_DEPLOYMENT: "acme",
      GPU_GATE_REPOSITORY_ID: "9007199254740993",
      GPU_GATE_REQUEST: "r-1",
      GPU_GATE_ATTEMPT: "a-1",
      GPU_GATE_RUN_ID: "42",
      GPU_GATE_KEEP: "false",
    });
  });

  test.each(["deployment", "repositoryId", "requestId", "attemptId", "runId"] as const)(
    "no %s, no tags at all: half-tagged is worse than untagged",
    (field) => {
      expect(ownershipTags({ ...OWNER, [field]: "" })).toEqual({});
      expect(ownershipTags({ ...OWNER, [field]: undefined })).toEqual({});
    },
  );

  test("the prefix can be another", () => {
    expect(ownershipTags(OWNER, tagNames("X_"))).toHaveProperty("X_RUN_ID", "42");
  });
});

describe("reading tags out of an environment", () => {
  test("N152: nothing but our tag names passes", () => {
    const env = { ...TAGS, GPU_GATE_JIT_CONFIG: "canary", GPU_GATE_PROOF_NONCE: "canary", SECRET: "canary" };
    expect(tagsFromEnv(env)).toEqual(TAGS);
  });

  test("a tag that is no text or endless is not ours", () => {
    expect(tagsFromEnv({ GPU_GATE_RUN_ID: 42, GPU_GATE_REQUEST: "x".repeat(201) })).toEqual({});
  });

  test("names inherited from elsewhere are not looked at", () => {
    expect(tagsFromEnv(Object.create({ GPU_GATE_RUN_ID: "42" }))).toEqual({});
  });

  test("any environment gives only tag names", () => {
    const known = new Set(Object.values(GPU_GATE_TAGS));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string()), (env) => {
        expect(Object.keys(tagsFromEnv({ ...env, ...TAGS })).every((name) => known.has(name))).toBe(true);
      }),
    );
  });
});

describe("whose pod is it", () => {
  test("all tags agree and so does the name: ours", () => {
    expect(ownedBy(POD, "acme")).toEqual({ kind: "own", by: "tags", identity: OWNER });
  });

  test("a pod in the ledger is ours, even renamed and stripped of its tags", () => {
    const renamed = { ...POD, name: "innocent", tags: {} };
    expect(ownedBy(renamed, "acme", { ledgerPodIds: new Set(["pod1"]) })).toMatchObject({ kind: "own", by: "ledger" });
  });

  test("another deployment's pod is told apart and named", () => {
    expect(ownedBy(POD, "other")).toEqual({ kind: "other-deployment", deployment: "acme" });
  });

  test("somebody's own pod is foreign", () => {
    expect(ownedBy({ id: "x", name: "my-training", tags: {} }, "acme")).toEqual({ kind: "foreign" });
  });

  test("our kind of name without tags is untagged, not ours", () => {
    expect(ownedBy({ ...POD, tags: {} }, "acme")).toEqual({ kind: "untagged" });
  });

  test("tags under another name disagree: not ours", () => {
    expect(ownedBy({ ...POD, name: "my-training" }, "acme").kind).toBe("disagreeing");
  });

  test.each(Object.values(GPU_GATE_TAGS))("without %s the pod is not ours", (name) => {
    const { [name]: _gone, ...tags } = TAGS;
    expect(ownedBy({ ...POD, tags }, "acme").kind).toBe("disagreeing");
  });

  test.each([
    ["GPU_GATE_RUN_ID", "0"],
    ["GPU_GATE_RUN_ID", "042"],
    ["GPU_GATE_REPOSITORY_ID", "acme/x"],
    ["GPU_GATE_KEEP", "maybe"],
  ])("%s = %j is not a tag we write", (name, value) => {
    expect(ownedBy({ ...POD, tags: { ...TAGS, [name]: value } }, "acme").kind).toBe("disagreeing");
  });
});

describe("pod names", () => {
  const name = (more: Partial<typeof OWNER>) => podName({ ...OWNER, ...more });

  test("name the deployment, the repository and the attempt", () => {
    expect(name({ repositoryId: "101", attemptId: "r7-2" })).toBe("gpu-gate-acme-101-r7-2");
  });

  test("two repositories of one deployment number their requests alike and never share a name", () => {
    expect(name({ repositoryId: "101" })).not.toBe(name({ repositoryId: "102" }));
  });

  test("fit a GitHub runner's 64 characters at every length, and stay apart however much is cut", () => {
    const deployments = ["d".repeat(40), `${"d".repeat(39)}e`, "x", "d".repeat(300)];
    const repositories = ["1", "9007199254740993", "9007199254740994"];
    const attempts = ["r1-1", "r9007199254740991-40", "r9007199254740991-39"];
    const names = deployments.flatMap((deployment) =>
      repositories.flatMap((repositoryId) =>
        attempts.map((attemptId) => podName({ deployment, repositoryId, attemptId })),
      ),
    );
    expect(new Set(names).size).toBe(names.length);
    for (const one of names) expect(one).toMatch(/^gpu-gate-[A-Za-z0-9._-]{1,55}$/);
  });

  test("any two different attempts have different, legal names", () => {
    const text = fc.string({ minLength: 1, maxLength: 80 });
    const identity = fc.record({
      deployment: text,
      repositoryId: text,
      attemptId: fc.stringMatching(/^r[1-9]\d{0,14}([bcdfz]{5})?-\d{1,2}$/),
    });
    fc.assert(
      fc.property(identity, identity, (one, two) => {
        expect(podName(one)).toMatch(/^[A-Za-z0-9._-]{1,64}$/);
        if (one.attemptId !== two.attemptId)
          expect(podName({ ...one, attemptId: two.attemptId })).not.toBe(podName(one));
      }),
    );
  });

  test("hold only characters every interface takes", () => {
    expect(podName({ deployment: "ä/b c", repositoryId: "1", attemptId: "1:2" })).toMatch(/^[A-Za-z0-9._-]+$/);
  });
});
