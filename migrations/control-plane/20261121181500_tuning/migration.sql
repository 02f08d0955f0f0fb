-- AlterTable
ALTER TABLE "cluster" ADD COLUMN     "tuning" JSONB NOT NULL DEFAULT '{}',
ADD COLUMN     "tuning_version" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "tuning_applied" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "tuning_problem" TEXT,
ADD COLUMN     "tuning_updated_at" TIMESTAMPTZ(3);

-- CreateTable
CREATE TABLE "tuning_change" (
    "id" TEXT NOT NULL,
    "cluster_id" TEXT NOT NULL,
    "version" INTEGER NOT NULL,
    "principal_kind" TEXT NOT NULL,
    "principal_id" TEXT NOT NULL,
    "principal_name" TEXT NOT NULL,
    "changes" JSONB NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "tuning_change_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "tuning_change_cluster_id_version_key" ON "tuning_change"("cluster_id", "version");

-- CreateIndex
CREATE INDEX "tuning_change_cluster_id_created_at_id_idx" ON "tuning_change"("cluster_id", "created_at" DESC, "id" DESC);

-- AddForeignKey
ALTER TABLE "tuning_change" ADD CONSTRAINT "tuning_change_cluster_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "cluster"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- History is only ever added to, whoever writes.
CREATE FUNCTION "refuse_change_of_history"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is only ever added to', TG_TABLE_NAME;
END
$$;

CREATE TRIGGER "tuning_change_is_kept" BEFORE UPDATE OR DELETE OR TRUNCATE ON "tuning_change"
    FOR EACH STATEMENT EXECUTE FUNCTION "refuse_change_of_history"();
