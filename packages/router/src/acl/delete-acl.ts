import { deleteAcl as contract } from "@millrace/contract";
import { deleteAcl } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { aclOf } from "./acl-fields.ts";

export const deleteAclProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const request = { clusterId: input.cluster_id, acl: aclOf(input) };
    await deleteAcl(ctx.core, ctx.principal, request);
    return null;
  });
