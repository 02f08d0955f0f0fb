import type { TuningSetting, Tuning as TuningShape } from "@millrace/contract";
import type { KnobView, TuningView } from "@millrace/core";
import { TUNING_PROPERTIES, type TuningKnob, tuningUnit } from "@millrace/domain";

export function presentTuning({ cluster, etag, knobs, applied }: TuningView): TuningShape {
  const { version, updatedAt, problem } = cluster.tuning;
  const setting = (knob: TuningKnob) => presentKnob(knob, knobs[knob]);
  return {
    cluster_id: cluster.id,
    metadata: { etag, version, updated_at: updatedAt?.toISOString() ?? null },
    applied,
    problem: problem ?? null,
    block_cache_bytes: setting("block_cache_bytes"),
    prefetch_max_bytes: setting("prefetch_max_bytes"),
    ingress_baseline_bytes_per_second: setting("ingress_baseline_bytes_per_second"),
    egress_baseline_bytes_per_second: setting("egress_baseline_bytes_per_second"),
    wal_cache_bytes: setting("wal_cache_bytes"),
    upload_threshold_bytes: setting("upload_threshold_bytes"),
  };
}

function presentKnob(knob: TuningKnob, view: KnobView): TuningSetting {
  return {
    value: view.value,
    default: view.default,
    min: view.min,
    max: view.max,
    reason: view.reason,
    unit: tuningUnit(knob),
    source: view.source,
    applied: view.applied,
    property: TUNING_PROPERTIES[knob],
  };
}
