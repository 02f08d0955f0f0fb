import { TUNING_KNOBS, type TuningKnob } from "@millrace/domain";
import { z } from "zod";
import { timestamp } from "../field.ts";

/** Knobs are well below 2^53, so they are plain numbers. */
const amount = z.int();

export const TuningSetting = z
  .object({
    value: amount.meta({ description: "What it is, or shall be; a baseline of 0 is no bound" }),
    default: amount,
    min: amount,
    max: amount,
    reason: z.string().meta({ description: "Why the bounds are where they are" }),
    unit: z.enum(["bytes", "bytes_per_second"]),
    source: z
      .enum(["default", "tuning", "broker"])
      .meta({ description: "The size, a change made here, or one made at the broker itself" }),
    applied: z.boolean().meta({ description: "Whether the running broker has this value" }),
    property: z.string().meta({ description: "The broker's name of it" }),
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
      version: z.int().meta({ description: "Counts the changes" }),
      updated_at: timestamp.nullable(),
    }),
    applied: z.boolean().meta({ description: "Whether the running broker has every value" }),
    problem: z
      .string()
      .nullable()
      .meta({ description: "Why the broker does not take the values, where it refuses them" }),
    ...everyKnob(TuningSetting),
  })
  .meta({ id: "Tuning" });
export type Tuning = z.infer<typeof Tuning>;

/** The use case checks the bounds, since it knows the cluster; here only the type is checked. */
const override = z.union(
  [
    z.number(),
    z
      .string()
      .regex(/^\d{1,15}$/)
      .transform(Number),
  ],
  { error: "expected a whole number, or null for the default" },
);

/** The knobs as a merge patch (RFC 7396) writes them: absent stays, `null` is the default again. */
export const tuningPatch = everyKnob(
  override.nullable().optional().meta({ description: "null is the default again" }),
);
