import { listSessions as contract } from "@millrace/contract";
import { listSessions } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentSession } from "./present-session.ts";

export const listSessionsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx }) => {
    const sessions = await listSessions(ctx.core, ctx.principal);
    return { items: sessions.map((each) => presentSession(each, ctx.principal)) };
  });
