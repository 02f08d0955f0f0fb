/** Medians and spread of the rounds of bench:transactions. */

interface Latencies {
  p50: number;
  p99: number;
  max: number;
}

/** What one run of the load has printed. */
export interface Measured {
  commits_per_s: number;
  errors: number;
  records: number;
  /** Committed records that the consumer has not seen. */
  missing: number;
  commit_ms: Latencies;
  end_to_end_ms: Latencies;
  after_commit_ms: Latencies;
}

export interface Row extends Measured {
  contender: string;
  load: string;
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export interface Result {
  load: string;
  contender: string;
  commits_per_s: Spread;
  commit_ms_p50: Spread;
  commit_ms_p99: Spread;
  end_to_end_ms_p99: Spread;
  after_commit_ms_p50: Spread;
  after_commit_ms_p99: Spread;
}

const COLUMNS = {
  commits_per_s: "commits/s",
  commit_ms_p50: "commit p50 ms",
  commit_ms_p99: "commit p99 ms",
  end_to_end_ms_p99: "end to end p99 ms",
  after_commit_ms_p50: "after commit p50 ms",
  after_commit_ms_p99: "after commit p99 ms",
} as const;

/** One result per load and contender, in the order of the first round. */
export function medians(rows: Row[]): Result[] {
  const groups = Map.groupBy(rows, ({ load, contender }) => `${load}\n${contender}`);
  const results = [...groups.values()].map((runs) => {
    const over = (value: (row: Row) => number) => spread(runs.map(value));
    return {
      load: runs[0]?.load ?? "",
      contender: runs[0]?.contender ?? "",
      commits_per_s: over((row) => row.commits_per_s),
      commit_ms_p50: over((row) => row.commit_ms.p50),
      commit_ms_p99: over((row) => row.commit_ms.p99),
      end_to_end_ms_p99: over((row) => row.end_to_end_ms.p99),
      after_commit_ms_p50: over((row) => row.after_commit_ms.p50),
      after_commit_ms_p99: over((row) => row.after_commit_ms.p99),
    };
  });
  const loads = [...new Set(results.map(({ load }) => load))];
  return loads.flatMap((load) => results.filter((one) => one.load === load));
}

/** @param values at least one. */
export function spread(values: number[]): Spread {
  const sorted = values.toSorted((one, other) => one - other);
  const at = (place: number) => sorted[place] ?? Number.NaN;
  const middle = (sorted.length - 1) / 2;
  const median = (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2;
  return { median, min: at(0), max: at(sorted.length - 1) };
}

/** Medians, with the lowest and highest in parentheses. */
export function table(results: Result[]): string {
  const keys = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[];
  const shown = ({ median, min, max }: Spread) =>
    min === max ? median.toFixed(1) : `${median.toFixed(1)} (${min.toFixed(1)}–${max.toFixed(1)})`;
  return [
    `| load | contender | ${keys.map((key) => COLUMNS[key]).join(" | ")} |`,
    `|---|---|${keys.map(() => "---|").join("")}`,
    ...results.map(
      (one) =>
        `| ${one.load} | ${one.contender} | ${keys.map((key) => shown(one[key])).join(" | ")} |`,
    ),
  ].join("\n");
}
