import { CLUSTER_PROVIDERS, REGIONS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";

export const Region = z
  .object({
    id: z.enum(REGIONS),
    title: z.string(),
    provider: z.enum(CLUSTER_PROVIDERS),
    zones: z.array(z.string()),
    available: z
      .boolean()
      .meta({ description: "False: clusters can be planned there, but not created" }),
  })
  .meta({ id: "Region" });
export type Region = z.infer<typeof Region>;

export const listRegions = defineContract({
  name: "region.list",
  method: "GET",
  path: "/v1/regions",
  summary: "List regions",
  tag: "Catalog",
  permission: "catalog:read",
  successStatus: 200,
  response: z.object({ items: z.array(Region) }).meta({ id: "RegionList" }),
});
