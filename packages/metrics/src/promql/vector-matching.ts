import { compute } from "./binary-operation.ts";
import type { Operator, SetOperator } from "./expression.ts";
import type { LabelSet } from "./label-set.ts";
import { PromqlError } from "./promql-error.ts";
import type { Sample, Vector } from "./series.ts";

export interface MatchRules {
  /** The labels that have to be equal. */
  readonly signatureOf: (labels: LabelSet) => LabelSet;
  /** The labels of the result, from those of the left element. */
  readonly resultOf: (labels: LabelSet) => LabelSet;
  readonly bool: boolean;
}

/** Elements of either side that have a partner, or none, on the other. */
export function setOperation(
  operator: SetOperator,
  left: Vector,
  right: Vector,
  { signatureOf }: MatchRules,
): Sample[] {
  const keysOf = (vector: Vector) => new Set(vector.map(({ labels }) => signatureOf(labels).key));
  if (operator === "or") {
    const known = keysOf(left);
    return [...left, ...right.filter(({ labels }) => !known.has(signatureOf(labels).key))];
  }
  const known = keysOf(right);
  return left.filter(({ labels }) => known.has(signatureOf(labels).key) === (operator === "and"));
}

/** Each element of the left side with its only partner on the right. Throws `execution` where there are several. */
export function oneToOne(
  operator: Operator,
  left: Vector,
  right: Vector,
  { signatureOf, resultOf, bool }: MatchRules,
): Sample[] {
  const partners = new Map<string, Sample>();
  for (const sample of right) {
    const signature = signatureOf(sample.labels);
    const before = partners.get(signature.key);
    if (before) throw duplicates(signature, before, sample);
    partners.set(signature.key, sample);
  }
  const taken = new Set<string>();
  return left.flatMap(({ labels, value }) => {
    const { key } = signatureOf(labels);
    const partner = partners.get(key);
    if (partner === undefined) return [];
    const result = compute(operator, value, partner.value);
    if (result === undefined && !bool) return [];
    if (taken.has(key)) {
      throw new PromqlError(
        "execution",
        "multiple matches for labels: many-to-one matching is not supported",
      );
    }
    taken.add(key);
    const held = Number(result !== undefined);
    return [{ labels: resultOf(labels), value: bool ? held : (result ?? Number.NaN) }];
  });
}

function duplicates(group: LabelSet, one: Sample, other: Sample): PromqlError {
  return new PromqlError(
    "execution",
    `found duplicate series for the match group ${group} on the right hand-side of the operation: ` +
      `[${one.labels}, ${other.labels}]; many-to-many matching not allowed: matching labels must be unique on one side`,
  );
}
