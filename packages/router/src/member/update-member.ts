import { updateMember as contract } from "@millrace/contract";
import { updateMember } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentMember } from "./present-member.ts";

export const updateMemberProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { member_id: memberId, role, custom_role_id: customRoleId } = input;
    const change = { memberId, role, customRoleId };
    return presentMember(await updateMember(ctx.core, ctx.principal, change));
  });
