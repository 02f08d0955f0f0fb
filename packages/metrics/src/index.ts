export { queryMetrics } from "./query-metrics.ts";
export { readScrape } from "./read-scrape.ts";
export { applyRetention, RETENTION_MS } from "./retention.ts";
