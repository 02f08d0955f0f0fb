-- AlterTable
ALTER TABLE "cluster" ADD COLUMN "data_destroyed_at" TIMESTAMPTZ(3);

-- Until now it was told from the last operation alone. Any deletion with the data that came to its
-- destroying step has begun to destroy it, unless the cluster serves again.
UPDATE "cluster" SET "data_destroyed_at" = now()
    WHERE "phase" IN ('DELETING', 'FAILED') AND "deleted_at" IS NULL AND EXISTS (
        SELECT 1 FROM "operation" JOIN "operation_step" ON "operation_id" = "operation"."id"
        WHERE "cluster_id" = "cluster"."id" AND "name" IN ('apply', 'delete_data')
            AND "operation_step"."attempt" > 0
            AND ("kind" = 'cluster.purge' OR ("kind" = 'cluster.delete'
                AND coalesce(("parameters"->>'retainDays')::int, 0) = 0)));

-- What is left of such a cluster never serves, is never changed and never comes back.
ALTER TABLE "cluster" ADD CONSTRAINT "cluster_data_destroyed"
    CHECK ("data_destroyed_at" IS NULL OR "phase" IN ('DELETING', 'FAILED', 'DELETED'));
