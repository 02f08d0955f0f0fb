import { z } from "zod";

/** A bound or value of a setting; large ones come as decimal strings. */
const amount = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^-?\d+$/)
      .transform(Number),
  ])
  .nullish()
  .transform((value) => value ?? undefined);

/** What a broker answers at `/v1/config`, as far as the control plane uses it. */
export const SettingsAnswer = z.object({
  settings: z.array(
    z.object({
      key: z.string(),
      value: z
        .union([z.string(), z.number().transform(String), z.boolean().transform(String)])
        .nullish()
        .transform((value) => value ?? undefined),
      dynamic: z.boolean(),
      min: amount,
      max: amount,
      reason: z
        .string()
        .nullish()
        .transform((value) => value ?? undefined),
    }),
  ),
});

/** One setting of a running broker, as it holds now. */
export interface BrokerSetting {
  /** As Kafka writes it; undefined where it is not shown or not set. */
  readonly value: string | undefined;
  /** Whether it changes without a restart. */
  readonly dynamic: boolean;
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** Why its bounds are where they are. */
  readonly reason: string | undefined;
}

/** Settings by name. */
export type BrokerSettings = ReadonlyMap<string, BrokerSetting>;

export function settingsOf(answer: z.infer<typeof SettingsAnswer>): BrokerSettings {
  return new Map(answer.settings.map(({ key, ...setting }) => [key, setting]));
}
