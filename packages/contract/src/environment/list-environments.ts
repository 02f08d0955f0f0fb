import { z } from "zod";
import { defineContract } from "../contract.ts";
import { timestamp } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";

export const Environment = z
  .object({ id: z.string(), name: z.string(), created_at: timestamp })
  .meta({ id: "Environment" });
export type Environment = z.infer<typeof Environment>;

export const listEnvironments = defineContract({
  name: "environment.list",
  method: "GET",
  path: "/v1/environments",
  summary: "List environments, oldest first",
  tag: "Environments",
  permission: "environment:read",
  successStatus: 200,
  query: pageQuery,
  response: pageOf(Environment).meta({ id: "EnvironmentPage" }),
});
