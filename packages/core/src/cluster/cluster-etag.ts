import type { Cluster } from "@millrace/domain";

/** The cluster's entity tag, quoted as HTTP writes it (RFC 9110, 8.8.3): changes with each write. */
export function clusterEtag({ version }: Cluster): string {
  return `"${version}"`;
}

/**
 * Whether an If-Match header names the cluster as it is. A digest behind the version stands for what changes by
 * itself, such as the connections of its brokers, and does not count.
 */
export function matchesCluster(ifMatch: string | undefined, { version }: Cluster): boolean {
  if (ifMatch === undefined || ifMatch === "*") return true;
  return /^"(\d+)(?:-[0-9a-f]+)?"$/.exec(ifMatch)?.[1] === String(version);
}
