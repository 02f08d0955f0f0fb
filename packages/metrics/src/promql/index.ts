/**
 * PromQL over stored readings: Prometheus' syntax (its own grammar) and semantics, of which a subset is computed.
 * What is not supported is `bad_data`. A query goes from `query.ts` to `parse.ts`, `load-series.ts` and `evaluate.ts`.
 */
export type { QueryResult } from "./evaluate.ts";
export { PromqlError, type PromqlErrorType } from "./promql-error.ts";
export { findSeries, metadata, queryAt, queryOver, TIME_MS_MAX } from "./query.ts";
