import { listAcls as contract } from "@millrace/contract";
import { listAcls } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentAcl } from "./acl-fields.ts";

export const listAclsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const filter = {
      principal: input.principal,
      resourceType: input.resource_type,
      resourceName: input.resource_name,
      patternType: input.pattern_type,
      operation: input.operation,
      permission: input.permission,
      host: input.host,
    };
    const request = { ...pageInput(input), clusterId: input.cluster_id, filter };
    return presentPage(await listAcls(ctx.core, ctx.principal, request), presentAcl);
  });
