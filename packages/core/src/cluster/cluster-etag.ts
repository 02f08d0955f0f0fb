import type { Cluster } from "@millrace/domain";

/** The cluster's entity tag, quoted as HTTP writes it (RFC 9110, 8.8.3): changes with each write. */
export function clusterEtag(cluster: Cluster): string {
  return `"${cluster.version}"`;
}
