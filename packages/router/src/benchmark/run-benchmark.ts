import { runBenchmark as contract } from "@millrace/contract";
import { runBenchmark } from "@millrace/core";
import { presentOperation } from "../operation/present-operation.ts";
import { procedure } from "../procedure.ts";

export const runBenchmarkProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentOperation(
      await runBenchmark(ctx.core, ctx.principal, {
        clusterId: input.cluster_id,
        workload: input.workload,
        durationSeconds: input.duration_seconds,
        recordSizeBytes: input.record_size_bytes,
        bytesPerSecond: input.bytes_per_second ?? undefined,
        partitions: input.partitions,
      }),
    ),
  );
