import { z } from "zod";

/** A person or an API key, by the name it had then. */
export const Actor = z
  .object({ kind: z.enum(["user", "api_key"]), id: z.string(), name: z.string() })
  .meta({ id: "Actor" });
