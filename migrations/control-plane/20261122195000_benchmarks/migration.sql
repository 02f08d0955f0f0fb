-- CreateTable
CREATE TABLE "benchmark" (
    "id" TEXT NOT NULL,
    "cluster_id" TEXT NOT NULL,
    "operation_id" TEXT NOT NULL,
    "workload" TEXT NOT NULL,
    "duration_seconds" INTEGER NOT NULL,
    "record_size_bytes" INTEGER NOT NULL,
    "asked_bytes_per_second" BIGINT,
    "bytes_per_second" BIGINT NOT NULL,
    "partitions" INTEGER NOT NULL,
    "size" TEXT NOT NULL,
    "principal_kind" TEXT NOT NULL,
    "principal_id" TEXT NOT NULL,
    "principal_name" TEXT NOT NULL,
    "tuning" JSONB NOT NULL,
    "tuning_version" INTEGER NOT NULL,
    "tuning_changes" JSONB NOT NULL,
    "tuning_version_at_end" INTEGER,
    "report" JSONB,
    "topic_deleted_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "benchmark_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "benchmark_sample" (
    "benchmark_id" TEXT NOT NULL,
    "seq" INTEGER NOT NULL,
    "sample" JSONB NOT NULL,

    CONSTRAINT "benchmark_sample_pkey" PRIMARY KEY ("benchmark_id","seq")
);

-- CreateIndex
CREATE UNIQUE INDEX "benchmark_operation_id_key" ON "benchmark"("operation_id");

-- CreateIndex
CREATE INDEX "benchmark_cluster_id_created_at_id_idx" ON "benchmark"("cluster_id", "created_at" DESC, "id" DESC);

-- AddForeignKey
ALTER TABLE "benchmark" ADD CONSTRAINT "benchmark_cluster_id_fkey" FOREIGN KEY ("cluster_id") REFERENCES "cluster"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "benchmark" ADD CONSTRAINT "benchmark_operation_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operation"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "benchmark_sample" ADD CONSTRAINT "benchmark_sample_benchmark_id_fkey" FOREIGN KEY ("benchmark_id") REFERENCES "benchmark"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Topics of benchmarks that are still to be deleted: few, and looked for every few seconds.
CREATE INDEX "benchmark_topic_left" ON "benchmark"("created_at") WHERE ("topic_deleted_at" IS NULL);
