import { createAcl as contract } from "@millrace/contract";
import { createAcls } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { aclOf, presentAcl } from "./acl-fields.ts";

export const createAclProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const acl = aclOf(input);
    await createAcls(ctx.core, ctx.principal, { clusterId: input.cluster_id, acls: [acl] });
    return presentAcl(acl);
  });
