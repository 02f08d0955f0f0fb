import { updateTuning as contract } from "@millrace/contract";
import { updateTuning } from "@millrace/core";
import { TUNING_KNOBS, type TuningKnob, type TuningOverrides } from "@millrace/domain";
import { procedure } from "../procedure.ts";
import { presentTuning } from "./present-tuning.ts";

export const updateTuningProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) =>
    presentTuning(
      await updateTuning(ctx.core, ctx.principal, {
        clusterId: input.cluster_id,
        patch: patchOf(input),
        ifMatch: input.if_match,
        validateOnly: input.validate_only,
      }),
    ),
  );

/** The knobs that the input names; `undefined` is absent, as over JSON. */
function patchOf(input: Partial<Record<TuningKnob, number | null | undefined>>): TuningOverrides {
  return Object.fromEntries(
    TUNING_KNOBS.flatMap((knob) => (input[knob] === undefined ? [] : [[knob, input[knob]]])),
  );
}
