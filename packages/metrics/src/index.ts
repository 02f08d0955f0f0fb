export { LATENCY_BOUNDS_US } from "./latency-bounds.ts";
export {
  type MetricsQuery,
  type MetricsReadings,
  queryMetrics,
  type TimeRange,
} from "./query-metrics.ts";
export {
  type BrokerReading,
  readScrape,
  type ScrapedSample,
  type ScrapeSource,
} from "./read-scrape.ts";
export { applyRetention, type PrunableReadings, RETENTION_MS } from "./retention.ts";
