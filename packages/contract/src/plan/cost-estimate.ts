import { z } from "zod";

/** What a cluster costs in a month, from list prices and stated use: never more than an estimate. */
export const CostEstimate = z
  .object({
    currency: z.literal("USD"),
    /** Day of the prices, `YYYY-MM-DD`. */
    as_of: z.string(),
    /** USD, the sum of the lines. */
    total: z.number(),
    lines: z.array(
      z.object({
        item: z.string(),
        quantity: z.number(),
        unit: z.string(),
        /** USD per unit. */
        unit_price: z.number(),
        /** USD, to the cent. */
        monthly: z.number(),
      }),
    ),
    /** What the estimate takes for granted, one sentence each. */
    assumptions: z.array(z.string()),
  })
  .meta({ id: "CostEstimate" });
export type CostEstimate = z.infer<typeof CostEstimate>;
