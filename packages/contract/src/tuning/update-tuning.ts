import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Tuning, tuningPatch } from "./tuning.ts";

export const updateTuning = defineContract({
  name: "tuning.update",
  method: "PATCH",
  path: "/v1/clusters/{cluster_id}/tuning",
  summary: "Change a cluster's tuning while it runs",
  tag: "Tuning",
  permission: "tuning:write",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: {
    validate_only: z
      .union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")])
      .optional()
      .meta({ description: "Answers what would be, and changes nothing" }),
  },
  headers: {
    if_match: z
      .string()
      .max(100)
      .optional()
      .meta({ description: "metadata.etag; the call fails with 412 when the tuning has changed" }),
  },
  body: tuningPatch,
  response: Tuning,
});
