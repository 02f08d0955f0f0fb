import { getMember as contract } from "@millrace/contract";
import { getMember } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentMember } from "./present-member.ts";

export const getMemberProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentMember(await getMember(ctx.core, ctx.principal, input.member_id)),
  );
