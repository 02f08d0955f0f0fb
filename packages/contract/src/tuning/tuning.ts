import { TUNING_KNOBS, type TuningKnob } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";

/** Knobs are well below 2^53, so they are plain numbers. */
const amount = z.int();

export const TuningSetting = z
  .object({
    value: amount.meta({ description: "Current or desired value; a baseline of 0 is unlimited" }),
    default: amount,
    min: amount.meta({
      description: "Smallest value; a baseline may also be 0, which is unlimited",
    }),
    max: amount,
    reason: z.string().meta({ description: "Reason for the bounds" }),
    unit: z.enum(["bytes", "bytes_per_second"]),
    source: z
      .enum(["default", "tuning", "broker"])
      .meta({ description: "Default of the size, set by this API, or set at the broker" }),
    applied: z.boolean().meta({ description: "True if the running broker uses this value" }),
    property: z.string().meta({ description: "The broker property" }),
  })
  .meta({ id: "TuningSetting" });
export type TuningSetting = z.infer<typeof TuningSetting>;

function everyKnob<T>(value: T): Record<TuningKnob, T> {
  return Object.fromEntries(TUNING_KNOBS.map((knob) => [knob, value])) as Record<TuningKnob, T>;
}

export const Tuning = z
  .object({
    cluster_id: z.string(),
    metadata: z.object({
      etag: z.string(),
      version: z.int().meta({ description: "Incremented by each change" }),
      updated_at: timestamp.nullable(),
    }),
    applied: z.boolean().meta({ description: "True if the running broker uses every value" }),
    problem: z.string().nullable().meta({ description: "Why the broker rejected the values" }),
    ...everyKnob(TuningSetting),
  })
  .meta({ id: "Tuning" });
export type Tuning = z.infer<typeof Tuning>;

/** The use case checks the bounds, which depend on the cluster. */
const override = z.union(
  [
    z.number(),
    z
      .string()
      .regex(/^\d{1,15}$/)
      .transform(Number),
  ],
  { error: "must be a whole number, or null for the default" },
);

/** A merge patch (RFC 7396): absent settings stay, `null` resets to the default. */
export const tuningPatch = everyKnob(
  override.nullable().optional().meta({
    description:
      "From min to max; a baseline may also be 0, which is unlimited. null resets to the default",
  }),
);
