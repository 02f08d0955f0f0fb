-- A cluster that outlived its deletion is not waiting for a purge.
UPDATE "cluster" SET "purge_at" = NULL
    WHERE "phase" NOT IN ('DELETING', 'PENDING_PURGE', 'FAILED') AND "purge_at" IS NOT NULL;

-- The name of a deleted cluster is free until it is restored: while its data is kept, and while that
-- is purged, so that a purge never fails for a name that was given away.
DROP INDEX "cluster_name_taken";
CREATE UNIQUE INDEX "cluster_name_taken" ON "cluster"("environment_id", "name")
    WHERE (deleted_at IS NULL AND purge_at IS NULL);
