-- An environment that had clusters keeps its row, because theirs refer to it; its name is free again.
ALTER TABLE "environment" ADD COLUMN "deleted_at" TIMESTAMPTZ(3);

DROP INDEX "environment_organization_id_name_key";

CREATE UNIQUE INDEX "environment_name_taken" ON "environment"("organization_id", "name") WHERE (deleted_at IS NULL);
