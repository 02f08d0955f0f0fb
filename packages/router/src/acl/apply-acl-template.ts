import { applyAclTemplate as contract } from "@millrace/contract";
import { createAcls } from "@millrace/core";
import { aclsOfTemplate } from "@millrace/domain";
import { procedure } from "../procedure.ts";
import { presentAcl } from "./acl-fields.ts";

export const applyAclTemplateProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const acls = aclsOfTemplate({
      template: input.template,
      principal: input.principal,
      topic: input.topic,
      group: input.group,
      transactionalId: input.transactional_id,
      patternType: input.pattern_type,
      host: input.host,
    });
    const request = { clusterId: input.cluster_id, acls };
    return { items: (await createAcls(ctx.core, ctx.principal, request)).map(presentAcl) };
  });
