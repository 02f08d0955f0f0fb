export { LATENCY_BOUNDS_US } from "./latency-bounds.ts";
export {
  findSeries,
  metadata,
  PromqlError,
  type PromqlErrorType,
  type QueryResult,
  queryAt,
  queryOver,
  TIME_MS_MAX,
} from "./promql/index.ts";
export { queryMetrics } from "./query-metrics.ts";
export { isScraped, readScrape } from "./read-scrape.ts";
export { ReadingWriter } from "./reading-writer.ts";
export { keepPartitions } from "./retention.ts";
export { hasRestarted } from "./segment.ts";
