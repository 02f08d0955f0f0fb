import { z } from "zod";

/** Every error answer: RFC 9457 `application/problem+json` with our stable code. */
export const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.string(),
    request_id: z.string(),
    retryable: z.boolean(),
    remedy: z.string().optional(),
    existing_id: z
      .string()
      .optional()
      .meta({ description: "ID of the conflicting resource, if there is one" }),
    errors: z.array(z.object({ pointer: z.string(), code: z.string(), message: z.string() })),
  })
  .meta({ id: "Problem" });
export type Problem = z.infer<typeof Problem>;
