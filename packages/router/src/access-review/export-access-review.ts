import { exportAccessReview as contract } from "@millrace/contract";
import { getAccessReview } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { accessCsv } from "./access-csv.ts";
import { presentAccess } from "./present-access-review.ts";

export const exportAccessReviewProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx }) => {
    const { access, at, isComplete } = await getAccessReview(ctx.core, ctx.principal);
    const items = access.map((each) => presentAccess(each, at));
    return accessCsv(items, isComplete);
  });
