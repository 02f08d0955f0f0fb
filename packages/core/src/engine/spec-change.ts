import type { Cluster, SpecPart } from "@millrace/domain";
import { canonical } from "./canonical.ts";

/**
 * What of a cluster's spec has to change for it to come from one state of these fields to another:
 * only what is as `from` says, so that what somebody else has changed since stays. Empty where there
 * is nothing to change.
 */
export function specChange(cluster: Cluster, from: SpecPart, to: SpecPart): SpecPart {
  const fields = (Object.keys(to) as (keyof SpecPart)[]).filter(
    (field) =>
      field !== "labels" &&
      canonical(cluster[field]) === canonical(from[field]) &&
      canonical(from[field]) !== canonical(to[field]),
  );
  const moved: SpecPart = Object.fromEntries(fields.map((field) => [field, to[field]]));
  if (to.labels === undefined) return moved;
  const labels = labelChange(cluster.labels, from.labels ?? {}, to.labels);
  return canonical(labels) === canonical(cluster.labels) ? moved : { ...moved, labels };
}

type Labels = Readonly<Record<string, string>>;

/** Each label by itself: several may change them, each another one. */
function labelChange(now: Labels, from: Labels, to: Labels): Labels {
  const [is, was, will] = [now, from, to].map((each) => new Map(Object.entries(each)));
  const labels: [string, string][] = [];
  for (const name of new Set([now, from, to].flatMap((each) => Object.keys(each)))) {
    const value = is?.get(name) === was?.get(name) ? will?.get(name) : is?.get(name);
    if (value !== undefined) labels.push([name, value]);
  }
  return Object.fromEntries(labels);
}
