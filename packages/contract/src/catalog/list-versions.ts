import { z } from "zod";
import { defineContract } from "../contract.ts";

export const BrokerVersion = z
  .object({ id: z.string(), default: z.boolean() })
  .meta({ id: "BrokerVersion" });
export type BrokerVersion = z.infer<typeof BrokerVersion>;

export const listVersions = defineContract({
  name: "version.list",
  method: "GET",
  path: "/v1/versions",
  summary: "List broker versions",
  tag: "Catalog",
  permission: "catalog:read",
  successStatus: 200,
  response: z.object({ items: z.array(BrokerVersion) }).meta({ id: "BrokerVersionList" }),
});
