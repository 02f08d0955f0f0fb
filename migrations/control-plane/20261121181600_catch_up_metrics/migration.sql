-- AlterTable
ALTER TABLE "metric_scrape" ADD COLUMN     "cache_hits" BIGINT NOT NULL DEFAULT 0,
ADD COLUMN     "cache_misses" BIGINT NOT NULL DEFAULT 0,
ADD COLUMN     "cache_fetched_bytes" BIGINT NOT NULL DEFAULT 0,
ADD COLUMN     "cache_delivered_bytes" BIGINT NOT NULL DEFAULT 0,
ADD COLUMN     "network_wait_us" BIGINT NOT NULL DEFAULT 0;
