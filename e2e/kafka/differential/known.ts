/** Differences that are known, each with the reason why it is there. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Difference } from "./scene.ts";

/** In all patterns `*` stands for any text; what is left out is anything. */
interface Known {
  api: string;
  step?: string;
  path: string;
  millrace?: string;
  kafka?: string;
  reason: string;
}

const WALK = "random walk";

export interface Sorted {
  /** Differences that no entry names. */
  unknown: Difference[];
  /** Entries that no difference has needed, except those of random walks: these depend on the seeds. */
  unused: Known[];
  count: number;
}

export function sortKnown(found: Difference[]): Sorted {
  const list = JSON.parse(
    readFileSync(join(import.meta.dirname, "known-differences.json"), "utf8"),
  ) as Known[];
  const used = new Set<Known>();
  const unknown = found.filter((difference) => {
    const known = list.find((one) => names(one, difference));
    if (known !== undefined) used.add(known);
    return known === undefined;
  });
  return {
    unknown,
    unused: list.filter((one) => !used.has(one) && !one.step?.startsWith(WALK)),
    count: found.length,
  };
}

function names(known: Known, difference: Difference): boolean {
  return (["api", "step", "path", "millrace", "kafka"] as const).every((field) => {
    const pattern = known[field];
    return pattern === undefined || matches(pattern, difference[field]);
  });
}

function matches(pattern: string, text: string): boolean {
  const literal = pattern.split("*").map((part) => part.replaceAll(/[.[\](){}?+^$|\\/]/g, "\\$&"));
  return new RegExp(`^${literal.join(".*")}$`, "s").test(text);
}

export function shownDifference({
  api,
  versions,
  step,
  path,
  millrace,
  kafka,
  request,
}: Difference): string {
  const where = `${api} v${versions.join(",")}  ${step}  ${path}`;
  return `${where}\n    Millrace: ${millrace}\n    Kafka:    ${kafka}\n    request:  ${request}`;
}
