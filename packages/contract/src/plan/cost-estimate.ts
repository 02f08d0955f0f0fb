import { z } from "zod";

const CostLine = z
  .object({
    item: z.string(),
    quantity: z.number(),
    unit: z.string(),
    unit_price: z.number(),
    monthly: z.number(),
  })
  .meta({ id: "CostLine" });

/** An estimate from list prices and assumed usage. */
export const CostEstimate = z
  .object({
    currency: z.literal("USD"),
    as_of: z.iso.date().meta({ description: "Date of the list prices" }),
    total: z.number().meta({ description: "Per month" }),
    lines: z.array(CostLine),
    assumptions: z.array(z.string()),
  })
  .meta({ id: "CostEstimate" });
export type CostEstimate = z.infer<typeof CostEstimate>;
