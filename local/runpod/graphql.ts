/**
 * The part of RunPod's GraphQL that prices and balances are read from: `gpuTypes` without a key, `myself` with one.
 *
 * Only what was selected is answered, and an unknown field is an error, as RunPod removed fields without notice
 * (runpod-facts.md section 5). Introspection is off. GraphQL's words for stock are `High`, not `HIGH`.
 */
import type { GpuOffer, StockLevel } from "./types.ts";

interface Selection {
  readonly name: string;
  readonly alias: string;
  readonly children: readonly Selection[] | null;
}

export interface GraphqlWorld {
  readonly offers: readonly GpuOffer[];
  readonly balance: number;
  readonly spendPerHour: number;
  /** Whether the request carried the account's key. */
  readonly keyed: boolean;
}

export interface GraphqlAnswer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

type Node = { readonly [field: string]: (() => Node | Node[] | null) | string | number | boolean | null };

const stockWord: Readonly<Record<StockLevel, string | null>> = {
  NONE: null,
  LOW: "Low",
  MEDIUM: "Medium",
  HIGH: "High",
};

export function graphqlAnswer(query: string, world: GraphqlWorld): GraphqlAnswer {
  try {
    const root: Node = {
      gpuTypes: () => [...world.offers.map(gpuType), gpuType(unknownGpu)],
      myself: () => {
        if (!world.keyed) throw new Error("Something went wrong: not authorised");
        return { clientBalance: world.balance, currentSpendPerHr: world.spendPerHour };
      },
    };
    return { status: 200, body: { data: project(root, parseQuery(query)) } };
  } catch (error) {
    return { status: 400, body: { errors: [{ message: error instanceof Error ? error.message : "bad query" }] } };
  }
}

/** RunPod's list holds a row that is no GPU; clients have to drop it. */
const unknownGpu: GpuOffer = {
  id: "unknown",
  name: "unknown",
  manufacturer: "NVIDIA",
  memoryGb: 0,
  securePrice: 0,
  communityPrice: 0,
  maxCount: 0,
  stock: "NONE",
  cudaVersions: [],
};

function gpuType(offer: GpuOffer): Node {
  const available = offer.stock !== "NONE";
  return {
    id: offer.id,
    displayName: offer.name,
    memoryInGb: offer.memoryGb,
    secureCloud: offer.id !== "unknown",
    communityCloud: offer.id !== "unknown",
    securePrice: offer.securePrice,
    communityPrice: offer.communityPrice,
    lowestPrice: () => ({
      uninterruptablePrice: available ? offer.securePrice : null,
      minimumBidPrice: null,
      stockStatus: stockWord[offer.stock],
      availableGpuCounts: null,
    }),
  };
}

function project(node: Node, selections: readonly Selection[]): Record<string, unknown> {
  return Object.fromEntries(
    selections.map((selection) => {
      const value = node[selection.name];
      if (value === undefined) throw new Error(`Cannot query field "${selection.name}"`);
      if (typeof value !== "function") return [selection.alias, value];
      const { children } = selection;
      if (!children) throw new Error(`Field "${selection.name}" must have a selection of subfields`);
      const inner = value();
      if (Array.isArray(inner)) return [selection.alias, inner.map((item) => project(item, children))];
      return [selection.alias, inner ? project(inner, children) : null];
    }),
  );
}

/** Names, aliases, arguments (skipped) and selection sets; no fragments, no directives. */
function parseQuery(text: string): readonly Selection[] {
  const tokens = text.match(/"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|[{}():]|[^\s{}():"]/g) ?? [];
  let at = 0;

  function skipArguments(): void {
    let depth = 0;
    do {
      if (tokens[at] === "(") depth += 1;
      if (tokens[at] === ")") depth -= 1;
      at += 1;
    } while (depth > 0 && at < tokens.length);
  }

  function selectionSet(): Selection[] {
    at += 1; // {
    const found: Selection[] = [];
    while (tokens[at] !== "}") {
      const first = tokens[at];
      if (first === undefined || !/^[A-Za-z_]/.test(first)) throw new Error("Syntax Error: expected a field name");
      at += 1;
      let name = first;
      if (tokens[at] === ":") {
        name = tokens[at + 1] ?? "";
        at += 2;
      }
      if (tokens[at] === "(") skipArguments();
      found.push({ name, alias: first, children: tokens[at] === "{" ? selectionSet() : null });
    }
    at += 1; // }
    return found;
  }

  if (tokens[at] === "query") {
    at += 1;
    if (tokens[at] !== "{" && tokens[at] !== "(") at += 1;
    if (tokens[at] === "(") skipArguments();
  }
  if (tokens[at] !== "{") throw new Error("Syntax Error: expected a query");
  return selectionSet();
}
