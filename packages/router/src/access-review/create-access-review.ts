import { createAccessReview as contract } from "@millrace/contract";
import { createAccessReview } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentReview } from "./present-access-review.ts";

export const createAccessReviewProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentReview(await createAccessReview(ctx.core, ctx.principal, input)),
  );
