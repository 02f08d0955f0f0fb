-- AlterTable
ALTER TABLE "cluster" ADD COLUMN "local_wal_bytes" BIGINT;

-- A cluster whose size has changed has the log of its first size: the one that its first change of the
-- size replaced.
UPDATE "cluster" SET "local_wal_bytes" = CASE coalesce((
        SELECT "parameters"->'origin'->'spec'->>'size' FROM "operation"
        WHERE "cluster_id" = "cluster"."id" AND "parameters"->'origin'->'spec' ? 'size'
        ORDER BY "operation"."created_at" LIMIT 1), "size")
    WHEN 'dev' THEN 268435456 WHEN 'small' THEN 2147483648 ELSE 8589934592 END
    WHERE "aws" IS NULL;
