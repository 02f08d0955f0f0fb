export { queryMetrics } from "./query-metrics.ts";
export { readScrape } from "./read-scrape.ts";
export { applyRetention } from "./retention.ts";
