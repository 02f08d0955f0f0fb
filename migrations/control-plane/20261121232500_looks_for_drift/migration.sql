-- Looks for drift come by themselves, several a day for each cluster: the old ones are found to be removed.
CREATE INDEX "operation_look" ON "operation"("created_at")
    WHERE (kind = 'cluster.check_drift' AND done);
