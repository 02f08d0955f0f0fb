import {
  type TuningChange as ChangeShape,
  listTuningChanges as contract,
} from "@millrace/contract";
import { listTuningChanges, type TuningChangeView } from "@millrace/core";
import { infinite, pageInput, presentPage, procedure } from "../procedure.ts";

export const listTuningChangesProcedure = procedure(contract.permission)
  .input(infinite(contract.input))
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const request = { ...pageInput(input), clusterId: input.cluster_id };
    return presentPage(await listTuningChanges(ctx.core, ctx.principal, request), presentChange);
  });

function presentChange({ change, result, problem }: TuningChangeView): ChangeShape {
  return {
    id: change.id,
    version: change.version,
    created_at: change.createdAt.toISOString(),
    principal: { ...change.by },
    changes: change.changes.map(({ knob, from, to, toDefault }) => ({
      field: knob,
      from,
      to,
      to_default: toDefault,
    })),
    reverts: change.reverts ?? null,
    result,
    problem: problem ?? null,
  };
}
