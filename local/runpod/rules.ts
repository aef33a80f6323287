/**
 * The rules of RunPod that the local RunPod keeps: each with the fact it rests on and the test that holds the server to it.
 *
 * `fact` is a numbered section of the project's RunPod facts (`runpod-facts.md §6.13`) or a place in RunPod's OpenAPI
 * document (`openapi-v2 POST /v2/pods`). `test` is the title of a test in `test/local-runpod/`. A rule without a fact does
 * not belong here.
 */

export interface VendorRule {
  readonly id: string;
  readonly sentence: string;
  readonly fact: string;
  readonly test: string;
}

export const runpodRules: readonly VendorRule[] = [
  {
    id: "bearer",
    sentence:
      "Without a valid bearer key every route but the documented public ones answers 401 as a problem document.",
    fact: "openapi-v2 GET /v2/pods",
    test: "answers 401 as a problem document without a valid bearer key",
  },
  {
    id: "user-agent",
    sentence: "A client without a User-Agent meets the edge: 403, plain text, code 1010.",
    fact: "runpod-facts.md §6.21",
    test: "refuses a client without a User-Agent at the edge, not in JSON",
  },
  {
    id: "v1-gone",
    sentence: "REST v1 answers 410.",
    fact: "runpod-facts.md §0",
    test: "answers 410 on every v1 path",
  },
  {
    id: "unknown-path",
    sentence:
      "An unknown path is a 404 problem document, a known path with another method a 405 that names the methods.",
    fact: "runpod-facts.md §4.1",
    test: "answers unknown paths with 404 and other methods with 405",
  },
  {
    id: "closed-create",
    sentence: "The create schema is closed: an unknown field anywhere is 422 with a list of errors.",
    fact: "openapi-v2 POST /v2/pods",
    test: "refuses unknown or wrong fields of a create with 422 and errors",
  },
  {
    id: "exec-form",
    sentence: "A create also takes cmd and entrypoint as arrays, and JSON with both in args.",
    fact: "runpod-facts.md §3.5",
    test: "starts entry point and command from args as JSON, from arrays, or from words",
  },
  {
    id: "gpu-count",
    sentence: "A create without gpu.count fails with the words for no capacity.",
    fact: "runpod-facts.md §6.13",
    test: "words a missing gpu.count as no capacity",
  },
  {
    id: "wrong-gpu-id",
    sentence: "A wrong GPU id fails with the words for no capacity.",
    fact: "runpod-facts.md §6.15",
    test: "words a wrong GPU id as no capacity",
  },
  {
    id: "data-center-enforced",
    sentence: "Preferred data centres are enforced, and a refusal is worded as no capacity.",
    fact: "runpod-facts.md §6.14",
    test: "enforces data centres and words the refusal as no capacity",
  },
  {
    id: "cuda-filter",
    sentence: "CUDA versions are matched exactly, a minimum by numbers; nothing fitting is worded as no capacity.",
    fact: "openapi-v2 POST /v2/pods",
    test: "filters hosts by CUDA version and words an empty result as no capacity",
  },
  {
    id: "capacity-by-text",
    sentence: "No capacity is a 400 that only its text tells from a broken rule.",
    fact: "runpod-facts.md §4.2",
    test: "tells no capacity by text only, as a 400",
  },
  {
    id: "too-large",
    sentence: "A create above 102,400 bytes is 413.",
    fact: "runpod-facts.md §3.5",
    test: "refuses a create above 102,400 bytes with 413",
  },
  {
    id: "env-limit",
    sentence: "A pod takes at most 50 environment variables.",
    fact: "runpod-facts.md §6.23",
    test: "refuses more than 50 environment variables",
  },
  {
    id: "balance",
    sentence: "A create needs one hour's cost in credit, else 402.",
    fact: "runpod-facts.md §6.30",
    test: "refuses a create with 402 when the balance is below one hour",
  },
  {
    id: "balance-zero",
    sentence: "At a balance of zero pods without a network volume are terminated.",
    fact: "runpod-facts.md §6.30",
    test: "terminates pods at a balance of zero",
  },
  {
    id: "rate-headers",
    sentence:
      "Every authenticated answer carries RateLimit and RateLimit-Policy; a used-up window is 429 with Retry-After.",
    fact: "runpod-facts.md §3.3",
    test: "sends rate limit headers on every authenticated answer and 429 with Retry-After",
  },
  {
    id: "provisioning",
    sentence: "A create answers 201 with PROVISIONING; STARTING and RUNNING come later by RunPod's own time.",
    fact: "openapi-v2 POST /v2/pods",
    test: "goes from PROVISIONING over STARTING to RUNNING by its own timers",
  },
  {
    id: "no-machine-yet",
    sentence: "Until a machine is assigned dataCenterId and ssh.proxy are null.",
    fact: "runpod-facts.md §3.1",
    test: "shows no data centre and no ssh proxy until the pod is placed",
  },
  {
    id: "list-lag",
    sentence: "A new pod is missing from lists for a while.",
    fact: "runpod-facts.md §6.4",
    test: "lists a new pod only after a while",
  },
  {
    id: "newborn-404",
    sentence: "GET and DELETE of a newborn pod may answer 404 although it is there.",
    fact: "runpod-facts.md §6.3",
    test: "may answer 404 to GET and DELETE of a newborn pod",
  },
  {
    id: "done-but-500",
    sentence: "A create may answer 500 although the pod exists and is billed.",
    fact: "runpod-facts.md §6.1",
    test: "may create a pod and then answer 500, cut the connection, hang or send garbage",
  },
  {
    id: "names-not-unique",
    sentence: "Names are not unique and there is no idempotency key: the same create twice is two pods.",
    fact: "runpod-facts.md §6.2",
    test: "rents two pods for the same create sent twice",
  },
  {
    id: "delete-204",
    sentence: "DELETE answers 204 with an empty body.",
    fact: "runpod-facts.md §6.28",
    test: "deletes with 204 and no body, then answers 404",
  },
  {
    id: "terminated-record",
    sentence: "A deleted pod's record may read TERMINATED for a while before GET answers 404.",
    fact: "runpod-facts.md §6.7",
    test: "may show TERMINATED for a while after a delete",
  },
  {
    id: "delete-unfinished",
    sentence: "A pod may live on and be billed although it was said to be terminated.",
    fact: "runpod-facts.md §6.6",
    test: "may accept a delete although the pod lives on for some reads",
  },
  {
    id: "query-ignored",
    sentence: "Unknown query keys are ignored with 200: a name filter returns everything.",
    fact: "runpod-facts.md §3.2",
    test: "ignores unknown query keys",
  },
  {
    id: "cursor",
    sentence: "Lists are cut by limit and continued by cursor; pagination tells whether there is more.",
    fact: "runpod-facts.md §3.5",
    test: "pages its list by cursor",
  },
  {
    id: "restart-loop",
    sentence: "A container that crash-loops leaves the status RUNNING; only startedAt moves.",
    fact: "runpod-facts.md §6.9",
    test: "keeps a crash-looping container RUNNING and moves startedAt",
  },
  {
    id: "exited",
    sentence: "A container that ends may show as EXITED, with a cost of 0 in the answer.",
    fact: "runpod-facts.md §3.1",
    test: "shows a container's end as EXITED with cost 0",
  },
  {
    id: "injected-env",
    sentence: "RunPod adds a pod-scoped RUNPOD_API_KEY, RUNPOD_POD_ID, RUNPOD_DC_ID and others to the environment.",
    fact: "runpod-facts.md §6.23",
    test: "starts the container with exactly the given, the image's and the injected environment",
  },
  {
    id: "pod-key",
    sentence: "The pod-scoped key reaches the pod's own record and nothing else.",
    fact: "runpod-facts.md §6.23",
    test: "lets a pod-scoped key read and end its own pod only",
  },
  {
    id: "env-in-clear",
    sentence: "Reads return the environment in clear.",
    fact: "runpod-facts.md §6.22",
    test: "returns the environment in clear on reads",
  },
  {
    id: "image-refused",
    sentence: "An image that is not in its registry, or a reference RunPod does not take, is 422 in prose.",
    fact: "runpod-facts.md §4.2",
    test: "may refuse an image by digest or unknown to its registry with 422",
  },
  {
    id: "billing-from-rent",
    sentence: "A pod is billed from rent to release, usable or not, by the millisecond of the server's clock.",
    fact: "runpod-facts.md §6.11",
    test: "bills from rent to release by its own clock",
  },
  {
    id: "billing-route",
    sentence: "GET /v2/billing/pods gives amounts per pod and time bucket.",
    fact: "openapi-v2 GET /v2/billing/pods",
    test: "tells each pod's bill per bucket",
  },
  {
    id: "catalog",
    sentence: "The catalog shows price and, with include=AVAILABILITY and product, stock and CUDA versions.",
    fact: "openapi-v2 GET /v2/catalog/gpus",
    test: "shows prices, and stock only with include and product together",
  },
  {
    id: "openapi-public",
    sentence: "The OpenAPI document is served without a key.",
    fact: "runpod-facts.md §1",
    test: "serves its OpenAPI document without a key",
  },
  {
    id: "logs",
    sentence: "Logs come as server-sent events from container and system.",
    fact: "openapi-v2 GET /v2/pods/{id}/logs",
    test: "streams logs as server-sent events",
  },
  {
    id: "graphql-prices",
    sentence: "GraphQL tells prices and stock without a key, in its own words for stock, and only what was asked.",
    fact: "runpod-facts.md §5",
    test: "tells prices by GraphQL without a key and the balance only with one",
  },
  {
    id: "bad-host",
    sentence: "A pod may sit without a machine, become ERROR, or be RUNNING with nothing in it, and is billed.",
    fact: "runpod-facts.md §6.10",
    test: "can rent a pod that never boots, errs, or runs nothing",
  },
  {
    id: "outage",
    sentence: "In an outage the API answers 503, the edge's HTML, or not at all.",
    fact: "runpod-facts.md §4.1",
    test: "can be down in three ways",
  },
];
