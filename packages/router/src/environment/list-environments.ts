import {
  listEnvironments as contract,
  type Environment as EnvironmentShape,
} from "@millrace/contract";
import { listEnvironments } from "@millrace/core";
import type { Environment } from "@millrace/domain";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";

export const listEnvironmentsProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) =>
    presentPage(await listEnvironments(ctx.core, ctx.principal, pageInput(input)), presentOne),
  );

function presentOne(environment: Environment): EnvironmentShape {
  return {
    id: environment.id,
    name: environment.name,
    created_at: environment.createdAt.toISOString(),
  };
}
