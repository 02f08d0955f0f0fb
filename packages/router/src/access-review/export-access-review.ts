import { exportAccessReview as contract } from "@millrace/contract";
import { getAccessReview } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { accessCsv } from "./access-csv.ts";
import { presentAccess } from "./present-access-review.ts";

export const exportAccessReviewProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx }) => {
    const { access, at } = await getAccessReview(ctx.core, ctx.principal);
    return accessCsv(access.map((each) => presentAccess(each, at)));
  });
