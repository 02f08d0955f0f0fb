import { testAcl as contract } from "@millrace/contract";
import { testAcl } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentAcl } from "./acl-fields.ts";

export const testAclProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const question = {
      principal: input.principal,
      operation: input.operation,
      resourceType: input.resource_type,
      resourceName: input.resource_name,
      host: input.address,
    };
    const request = { clusterId: input.cluster_id, question };
    const { allowed, reason, acl } = await testAcl(ctx.core, ctx.principal, request);
    return { allowed, reason, acl: acl === undefined ? null : presentAcl(acl) };
  });
