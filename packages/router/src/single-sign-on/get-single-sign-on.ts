import { getSingleSignOn as contract } from "@millrace/contract";
import { getSingleSignOn } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentSingleSignOn } from "./present-single-sign-on.ts";

export const getSingleSignOnProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx: { core, principal } }) =>
    presentSingleSignOn(core, await getSingleSignOn(core, principal)),
  );
