import { getCaCertificate as contract } from "@millrace/contract";
import { getCaCertificate } from "@millrace/core";
import { procedure } from "../procedure.ts";

export const getCaCertificateProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ ctx, input }) => getCaCertificate(ctx.core, ctx.principal, input.cluster_id));
