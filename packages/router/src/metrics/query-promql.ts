import { type PromqlRequest, queryPromql } from "@millrace/core";
import type { ClusterId } from "@millrace/domain";
import { z } from "zod";
import { createCallerFactory, procedure, router } from "../procedure.ts";

/**
 * Prometheus' HTTP API has its own form of requests, answers and errors: it has no contract, and tRPC does not have
 * it, and the OpenAPI document only names it. The procedure is for what all have: permission, audit log, revoked access.
 */
const promqlRouter = router({
  metrics: router({
    promql: procedure("metrics:read")
      .input(
        z.strictObject({
          cluster_id: z.string().transform((id) => id as ClusterId),
          request: z.custom<PromqlRequest>(),
        }),
      )
      .query(({ ctx, input }) =>
        queryPromql(ctx.core, ctx.principal, input.cluster_id, input.request),
      ),
  }),
});

export const createPromqlCaller = createCallerFactory(promqlRouter);
