import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const getCaCertificate = defineContract({
  name: "cluster.caCertificate",
  method: "GET",
  path: "/v1/clusters/{cluster_id}/ca-certificate",
  summary: "Get the CA certificate",
  description:
    "The root certificate in PEM that clients of the cluster's SASL_SSL endpoint must trust. All " +
    "clusters of an installation have the same one. A cluster without such an endpoint answers 422.",
  tag: "Clusters",
  permission: "cluster:read",
  successStatus: 200,
  text: "application/x-pem-file",
  params: { cluster_id: pathId("clu") },
  response: z.string().meta({ description: "PEM" }),
});
