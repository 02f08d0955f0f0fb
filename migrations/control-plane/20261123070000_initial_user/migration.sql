SELECT set_config('app.owner_path', 'on', true);

-- Creations that can still go on get the step that is new, at its place.
UPDATE "operation_step" SET "position" = "position" + 1
    WHERE "name" = 'publish_endpoint' AND "operation_id" IN
        (SELECT "id" FROM "operation"
         WHERE "kind" = 'cluster.create' AND "provider" = 'local' AND "phase" <> 'SUCCEEDED');
INSERT INTO "operation_step" ("operation_id", "position", "name", "state")
    SELECT "operation_id", "position" - 1, 'create_user', 'PENDING' FROM "operation_step"
    JOIN "operation" ON "operation"."id" = "operation_id"
    WHERE "name" = 'publish_endpoint' AND "kind" = 'cluster.create' AND "provider" = 'local'
        AND "phase" <> 'SUCCEEDED';
