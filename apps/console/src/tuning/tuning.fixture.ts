/** A development cluster's tuning as the API answers it, for tests. */
import type { Tuning, TuningSetting } from "@millrace/contract";
import {
  desiredTuning,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  type TuningKnob,
  tuningBounds,
  tuningDefaults,
  tuningUnit,
} from "@millrace/domain";

export function devTuning(
  changes: Partial<Record<TuningKnob, Partial<TuningSetting>>> = {},
  rest: Partial<Pick<Tuning, "applied" | "problem" | "metadata">> = {},
): Tuning {
  const defaults = tuningDefaults({ size: "dev" });
  const bounds = tuningBounds({ size: "dev" }, desiredTuning({ size: "dev" }, {}));
  const setting = (knob: TuningKnob): TuningSetting => ({
    value: defaults[knob],
    default: defaults[knob],
    ...bounds[knob],
    unit: tuningUnit(knob),
    source: "default",
    applied: true,
    property: TUNING_PROPERTIES[knob],
    ...changes[knob],
  });
  return {
    cluster_id: "clu_test",
    metadata: { etag: '"0-00000000"', version: 0, updated_at: null },
    applied: true,
    problem: null,
    ...rest,
    ...(Object.fromEntries(TUNING_KNOBS.map((knob) => [knob, setting(knob)])) as Record<
      TuningKnob,
      TuningSetting
    >),
  };
}
