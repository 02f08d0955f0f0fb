-- AlterTable
ALTER TABLE "cluster"
    ADD COLUMN "deletion_protection" BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN "brokers" INTEGER NOT NULL DEFAULT 1,
    ADD COLUMN "zones" INTEGER NOT NULL DEFAULT 1,
    ADD COLUMN "aws" JSONB,
    ADD COLUMN "paused" BOOLEAN NOT NULL DEFAULT false,
    ADD COLUMN "purge_at" TIMESTAMPTZ(3),
    ADD COLUMN "drift_status" TEXT NOT NULL DEFAULT 'unknown',
    ADD COLUMN "drift_checked_at" TIMESTAMPTZ(3),
    ADD COLUMN "drift_digest" TEXT,
    ADD COLUMN "drift_operation_id" TEXT;

-- The name of a cluster that waits for its purge is free.
DROP INDEX "cluster_name_taken";
CREATE UNIQUE INDEX "cluster_name_taken" ON "cluster"("environment_id", "name")
    WHERE (deleted_at IS NULL AND phase <> 'PENDING_PURGE');

-- AlterTable
ALTER TABLE "operation"
    ADD COLUMN "provider" TEXT NOT NULL DEFAULT 'local',
    ADD COLUMN "parameters" JSONB NOT NULL DEFAULT '{}',
    ADD COLUMN "cancel_requested_at" TIMESTAMPTZ(3),
    ADD COLUMN "approved_digest" TEXT,
    ADD COLUMN "approved_by" TEXT,
    ADD COLUMN "approved_at" TIMESTAMPTZ(3),
    ADD COLUMN "log_lines" INTEGER NOT NULL DEFAULT 0;

-- Operations accepted by the version before have the steps of that version. What they are made of
-- now is added, at its place, to those that are not done: so they go on. The keys are unique, so
-- positions move in two strokes.
UPDATE "operation_step" SET "position" = "position" + 1000
    WHERE "position" >= 1 AND "operation_id" IN
        (SELECT "id" FROM "operation" WHERE "kind" = 'cluster.create' AND NOT "done");
UPDATE "operation_step" SET "position" = "position" - 998 WHERE "position" >= 1000;
INSERT INTO "operation_step" ("operation_id", "position", "name", "state")
    SELECT "id", 1, 'plan', 'PENDING' FROM "operation" WHERE "kind" = 'cluster.create' AND NOT "done";
INSERT INTO "operation_step" ("operation_id", "position", "name", "state")
    SELECT "id", 2, 'approve', 'PENDING' FROM "operation" WHERE "kind" = 'cluster.create' AND NOT "done";

-- AlterTable
ALTER TABLE "operation_event"
    ADD COLUMN "level" TEXT,
    ADD COLUMN "address" TEXT;

-- CreateTable
CREATE TABLE "operation_plan" (
    "operation_id" TEXT NOT NULL,
    "plan_id" TEXT NOT NULL,
    "digest" TEXT NOT NULL,
    "plan" JSONB NOT NULL,
    "cost" JSONB,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "operation_plan_pkey" PRIMARY KEY ("operation_id")
);

-- CreateTable
CREATE TABLE "terraform_state" (
    "cluster_id" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "serial" BIGINT NOT NULL,
    "lineage" TEXT NOT NULL,
    "ciphertext" BYTEA NOT NULL,
    "wrapped_key" BYTEA NOT NULL,
    "key_id" TEXT NOT NULL,
    "operation_id" TEXT,
    "attempt" INTEGER,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "terraform_state_pkey" PRIMARY KEY ("cluster_id","version")
);

-- AddForeignKey
ALTER TABLE "operation_plan" ADD CONSTRAINT "operation_plan_operation_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operation"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "terraform_state" ADD CONSTRAINT "terraform_state_cluster_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "cluster"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
