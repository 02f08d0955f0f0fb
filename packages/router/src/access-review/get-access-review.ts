import { getAccessReview as contract } from "@millrace/contract";
import { getAccessReview } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentAccess, presentReview } from "./present-access-review.ts";

export const getAccessReviewProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx }) => {
    const { access, at, ...rest } = await getAccessReview(ctx.core, ctx.principal);
    return {
      items: access.map((each) => presentAccess(each, at)),
      complete: rest.isComplete,
      digest: rest.digest,
      last_review: rest.lastReview ? presentReview(rest.lastReview) : null,
    };
  });
