import type { ValueType } from "./expression.ts";

interface Signature {
  readonly args: readonly ValueType[];
  /** How many of the last arguments may be left out. */
  readonly optional?: number;
  readonly returns: "scalar" | "vector";
}

const OF_RANGE: Signature = { args: ["matrix"], returns: "vector" };
const OF_VECTOR: Signature = { args: ["vector"], returns: "vector" };
const OF_VECTOR_AND_NUMBER: Signature = { args: ["vector", "scalar"], returns: "vector" };

/** The functions that are supported. */
export const FUNCTIONS: Readonly<Record<string, Signature | undefined>> = Object.assign(
  Object.create(null) as Record<string, Signature>,
  {
    rate: OF_RANGE,
    irate: OF_RANGE,
    increase: OF_RANGE,
    delta: OF_RANGE,
    deriv: OF_RANGE,
    avg_over_time: OF_RANGE,
    min_over_time: OF_RANGE,
    max_over_time: OF_RANGE,
    sum_over_time: OF_RANGE,
    count_over_time: OF_RANGE,
    last_over_time: OF_RANGE,
    abs: OF_VECTOR,
    ceil: OF_VECTOR,
    floor: OF_VECTOR,
    round: { ...OF_VECTOR_AND_NUMBER, optional: 1 },
    clamp_min: OF_VECTOR_AND_NUMBER,
    clamp_max: OF_VECTOR_AND_NUMBER,
    histogram_quantile: { args: ["scalar", "vector"], returns: "vector" },
    scalar: { args: ["vector"], returns: "scalar" },
    vector: { args: ["scalar"], returns: "vector" },
    time: { args: [], returns: "scalar" },
  } satisfies Record<string, Signature>,
);
