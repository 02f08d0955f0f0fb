import { listMembers as contract } from "@millrace/contract";
import { listMembers } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";
import { presentMember } from "./present-member.ts";

export const listMembersProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentPage(await listMembers(ctx.core, ctx.principal, pageInput(input)), presentMember),
  );
