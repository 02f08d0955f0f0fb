import { createHash } from "node:crypto";
import type { BrokerSetting, BrokerSettings } from "@millrace/broker-admin";
import {
  type Cluster,
  desiredTuning,
  type KnobBounds,
  TUNING_KNOBS,
  TUNING_PROPERTIES,
  type TuningKnob,
  type TuningValues,
  tuningBounds,
  tuningDefaults,
} from "@millrace/domain";

/** One knob as a tenant sees it. */
export interface KnobView extends KnobBounds {
  readonly value: number;
  readonly default: number;
  /** Whether the running broker has `value`. */
  readonly applied: boolean;
  /** Where `value` comes from: the size, a change asked for here, or one made at the broker. */
  readonly source: "default" | "tuning" | "broker";
}

export interface TuningView {
  readonly cluster: Cluster;
  readonly etag: string;
  readonly knobs: Readonly<Record<TuningKnob, KnobView>>;
  /** Whether the running broker has every value. */
  readonly applied: boolean;
}

/** Hexadecimal digits of the part of the entity tag that stands for what the broker reports. */
const DIGEST_LENGTH = 8;

/**
 * The tuning that the cluster's row asks for, beside what its broker says that it has; without the
 * latter where the broker does not answer.
 */
export function viewTuning(cluster: Cluster, settings: BrokerSettings | undefined): TuningView {
  const values = valuesOf(cluster, settings);
  const defaults = tuningDefaults(cluster);
  const applied = (knob: TuningKnob) => runningValue(settings, knob) === values[knob];
  const allApplied = TUNING_KNOBS.every(applied);
  const bounds = tuningBounds(cluster, values);
  const entries = TUNING_KNOBS.map((knob): [TuningKnob, KnobView] => {
    // A broker's bounds follow from its current settings, not from changes it has yet to receive.
    const setting = allApplied ? settings?.get(TUNING_PROPERTIES[knob]) : undefined;
    const view: KnobView = {
      value: values[knob],
      default: defaults[knob],
      ...narrowed(bounds[knob], setting),
      applied: applied(knob),
      source: sourceOf(cluster, knob, values[knob], defaults[knob]),
    };
    return [knob, view];
  });
  const knobs = Object.fromEntries(entries) as Record<TuningKnob, KnobView>;
  return { cluster, knobs, applied: allApplied, etag: etagOf(cluster, knobs) };
}

/**
 * What each knob is: as asked for here; else as the broker has it, because its own tools change
 * settings too; else the size's default.
 */
export function valuesOf(cluster: Cluster, settings: BrokerSettings | undefined): TuningValues {
  const { overrides } = cluster.tuning;
  const values: Record<TuningKnob, number> = { ...desiredTuning(cluster, overrides) };
  for (const knob of TUNING_KNOBS) {
    if (!(knob in overrides)) values[knob] = runningValue(settings, knob) ?? values[knob];
  }
  return values;
}

/** Whether an If-Match header names the cluster's current tuning. */
export function matchesTuning(ifMatch: string | undefined, cluster: Cluster): boolean {
  if (ifMatch === undefined || ifMatch === "*") return true;
  // What was asked for decides. What the broker reports beside it moves by itself, and must not make
  // a change fail that was decided on the same overrides.
  return /^"(\d+)-[0-9a-f]+"$/.exec(ifMatch)?.[1] === String(cluster.tuning.version);
}

function etagOf({ tuning }: Cluster, knobs: Readonly<Record<TuningKnob, KnobView>>): string {
  const shown = JSON.stringify([knobs, tuning.problem]);
  const digest = createHash("sha256").update(shown).digest("hex").slice(0, DIGEST_LENGTH);
  return `"${tuning.version}-${digest}"`;
}

/** The knob's value in the running broker; undefined where that is not known. */
export function runningValue(
  settings: BrokerSettings | undefined,
  knob: TuningKnob,
): number | undefined {
  const text = settings?.get(TUNING_PROPERTIES[knob])?.value;
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

function sourceOf(
  { tuning }: Cluster,
  knob: TuningKnob,
  value: number,
  standard: number,
): KnobView["source"] {
  if (typeof tuning.overrides[knob] === "number") return "tuning";
  return value === standard ? "default" : "broker";
}

/** The size's bounds, and the broker's where those are narrower: its machine may have less. */
function narrowed(bounds: KnobBounds, setting: BrokerSetting | undefined): KnobBounds {
  const min = Math.max(bounds.min, setting?.min ?? bounds.min);
  const max = Math.min(bounds.max, setting?.max ?? bounds.max);
  if ((min === bounds.min && max === bounds.max) || min > max) return bounds;
  return { min, max, reason: setting?.reason ?? bounds.reason };
}
