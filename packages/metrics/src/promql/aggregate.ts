import type { Aggregation } from "./expression.ts";
import type { LabelSet } from "./label-set.ts";
import type { Sample, Vector } from "./series.ts";

/** Combines the elements of each group into one, or takes the `k` largest or smallest of each. */
export function aggregate(
  operation: Aggregation,
  vector: Vector,
  groupOf: (labels: LabelSet) => LabelSet,
  k: number,
): Sample[] {
  const groups = new Map<string, { labels: LabelSet; samples: Sample[] }>();
  for (const sample of vector) {
    const labels = groupOf(sample.labels);
    const group = groups.get(labels.key);
    if (group) group.samples.push(sample);
    else groups.set(labels.key, { labels, samples: [sample] });
  }
  return [...groups.values()].flatMap(({ labels, samples }) => {
    if (operation === "topk" || operation === "bottomk") {
      return ranked(samples, operation === "topk").slice(0, Math.max(0, Math.trunc(k) || 0));
    }
    return [{ labels, value: combined(operation, samples) }];
  });
}

function combined(operation: Exclude<Aggregation, "topk" | "bottomk">, samples: Vector): number {
  switch (operation) {
    case "count":
      return samples.length;
    case "sum":
      return sum(samples);
    case "avg":
      return sum(samples) / samples.length;
    case "min":
      return extreme(samples, (a, b) => a < b);
    case "max":
      return extreme(samples, (a, b) => a > b);
  }
}

function sum(samples: Vector): number {
  return samples.reduce((total, { value }) => total + value, 0);
}

/** NaN only where all values are. */
function extreme(samples: Vector, isBetter: (a: number, b: number) => boolean): number {
  return samples.reduce(
    (best, { value }) => (isBetter(value, best) || Number.isNaN(best) ? value : best),
    Number.NaN,
  );
}

/** NaN last, whatever the order. */
function ranked(samples: Vector, isDescending: boolean): Sample[] {
  const sign = isDescending ? -1 : 1;
  return [...samples].sort((a, b) => {
    if (Number.isNaN(a.value)) return Number.isNaN(b.value) ? 0 : 1;
    if (Number.isNaN(b.value)) return -1;
    return sign * (a.value - b.value);
  });
}
