import { z } from "zod";
import { defineContract } from "../contract.ts";
import { ifMatch, pathId, validateOnly } from "../field.ts";
import { Operation } from "../operation/operation.ts";
import { ChangePreview } from "../plan/change-preview.ts";

export const recoverCluster = defineContract({
  name: "cluster.recover",
  method: "POST",
  path: "/v1/clusters/{cluster_id}/recover",
  summary: "Recover a broker that lost its metadata, its write-ahead log or its volume",
  tag: "Clusters",
  permission: "cluster:update",
  successStatus: 202,
  params: { cluster_id: pathId("clu") },
  query: { validate_only: validateOnly },
  headers: { if_match: ifMatch },
  response: z.union([ChangePreview, Operation]),
  answers: { 200: ChangePreview, 202: Operation },
});
