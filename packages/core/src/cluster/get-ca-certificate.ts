import { type ClusterId, DomainError, endpointsOf, type Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireCluster } from "./require-cluster.ts";

/**
 * The root certificate, in PEM, of the cluster's endpoint with TLS. Throws `not_found`, `cluster_not_ready`,
 * `not_supported`.
 */
export async function getCaCertificate(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<string> {
  const cluster = await requireCluster(core, principal, id);
  if (cluster.aws !== undefined) {
    throw new DomainError("not_supported", `Cluster ${cluster.name} has no endpoint with TLS.`, {
      remedy: "Clusters on AWS are reached within their network only.",
    });
  }
  const hasEndpoint = endpointsOf(cluster).some(({ protocol }) => protocol === "SASL_SSL");
  const root = hasEndpoint ? await core.drivers.local.rootCertificate() : undefined;
  if (root === undefined) {
    throw new DomainError("cluster_not_ready", `Cluster ${cluster.name} has no certificate yet.`, {
      remedy: "Wait until the cluster's broker has been started by this version of Millrace.",
    });
  }
  return root;
}
