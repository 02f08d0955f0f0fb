import { LABEL_MAX } from "@millrace/domain";
import { z } from "zod";
import { plainText, timestamp } from "../field.ts";

export const environmentName = plainText.trim().min(1).max(LABEL_MAX);

export const Environment = z
  .object({ id: z.string(), name: z.string(), created_at: timestamp })
  .meta({ id: "Environment" });
export type Environment = z.infer<typeof Environment>;
