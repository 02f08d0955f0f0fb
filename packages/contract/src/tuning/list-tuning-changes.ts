import { TUNING_KNOBS } from "@millrace/domain";
import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId, timestamp } from "../field.ts";
import { pageOf, pageQuery } from "../page.ts";

export const TuningChange = z
  .object({
    id: z.string(),
    version: z.int(),
    created_at: timestamp,
    principal: z.object({
      kind: z.enum(["user", "api_key"]),
      id: z.string(),
      name: z.string(),
    }),
    changes: z.array(
      z.object({
        field: z.enum(TUNING_KNOBS),
        from: z.int(),
        to: z.int().meta({
          description:
            "Equals from if the change made the current value explicit, so that it holds whatever the default becomes, or returned to a default that is the same",
        }),
        to_default: z.boolean(),
      }),
    ),
    reverts: z
      .object({ id: z.string(), version: z.int() })
      .nullable()
      .meta({ description: "The earlier change whose settings this one restored" }),
    result: z.enum(["applied", "pending", "refused", "superseded"]).meta({
      description:
        "applied: the broker uses it. pending: the broker gets it when it responds. refused: the broker rejected it. superseded: a later change replaced it first",
    }),
    problem: z.string().nullable(),
  })
  .meta({ id: "TuningChange" });
export type TuningChange = z.infer<typeof TuningChange>;

export const listTuningChanges = defineContract({
  name: "tuning.history",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/tuning/history",
  summary: "List tuning changes",
  description: "Who changed what, newest first.",
  tag: "Tuning",
  permission: "tuning:read",
  successStatus: 200,
  params: { cluster_id: pathId("clu") },
  query: pageQuery,
  response: pageOf(TuningChange).meta({ id: "TuningChangePage" }),
});
