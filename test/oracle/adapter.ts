/**
 * The seam between an example corpus and the product: an adapter feeds one case to the product's own functions and
 * brings the answer into the corpus's words. Adapters hold no rules of the product.
 *
 * `npm run oracle -- DIR` loads every file of `adapters/`; each exports `adapter`.
 */

export interface Corpus {
  readonly source?: string;
  readonly format?: string;
  readonly cases: readonly CorpusCase[];
}

export interface CorpusCase {
  readonly id: string;
  readonly [field: string]: unknown;
}

export interface Outcome {
  readonly pass: boolean;
  readonly expected: unknown;
  readonly actual: unknown;
  /**
   * Id of the rule in overrules.json under which the product answers differently on purpose. The adapter sets it only
   * when the rule's condition holds for this case, and `expected` then is what the design demands.
   */
  readonly overruledBy?: string;
}

export interface CorpusAdapter {
  /** File stem: `create-retry` reads `create-retry.json`. */
  readonly corpus: string;
  readonly run: (testCase: CorpusCase, corpus: Corpus, folder: string) => Outcome | Promise<Outcome>;
}
