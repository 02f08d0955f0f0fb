import { DESCRIPTION_LENGTH_MAX, LABEL_MAX, ROLES } from "@millrace/domain";
import { z } from "zod";
import { plainText, timestamp } from "../field.ts";

export const serviceAccountName = plainText.trim().min(1).max(LABEL_MAX);
export const descriptionText = plainText.trim().max(DESCRIPTION_LENGTH_MAX);

export const ServiceAccount = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string(),
    role: z.enum(ROLES).meta({ description: "The role of all of its API keys" }),
    disabled: z.boolean().meta({ description: "Whether its API keys are rejected" }),
    created_at: timestamp,
  })
  .meta({ id: "ServiceAccount" });
export type ServiceAccount = z.infer<typeof ServiceAccount>;
