-- Operations accepted by the version before have the steps of that version. What a reconciliation is
-- made of now is added, at its place, to those that can still go on.
UPDATE "operation_step" SET "position" = "position" + 1
    WHERE "name" = 'publish_endpoint' AND "operation_id" IN
        (SELECT "id" FROM "operation" WHERE "kind" = 'cluster.reconcile' AND "phase" <> 'SUCCEEDED');
INSERT INTO "operation_step" ("operation_id", "position", "name", "state")
    SELECT "operation_id", "position" - 1, 'detect_drift', 'PENDING' FROM "operation_step"
    JOIN "operation" ON "operation"."id" = "operation_id"
    WHERE "name" = 'publish_endpoint' AND "kind" = 'cluster.reconcile' AND "phase" <> 'SUCCEEDED';
