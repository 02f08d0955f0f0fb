import { createHash } from "node:crypto";
import type { BrokerLink, Cluster } from "@millrace/domain";

const DIGEST_LENGTH = 16;

/**
 * The cluster's entity tag, quoted as HTTP writes it (RFC 9110, 8.8.3): changes with each write, and with the
 * connections of its brokers, which are part of what a reader sees.
 */
export function clusterEtag({ version }: Cluster, links: readonly BrokerLink[] = []): string {
  if (links.length === 0) return `"${version}"`;
  const shown = links.map(({ brokerId, state, since, lastHeardAt }) =>
    state === "connected" ? [brokerId, since] : [brokerId, null, lastHeardAt],
  );
  const digest = createHash("sha256").update(JSON.stringify(shown)).digest("hex");
  return `"${version}-${digest.slice(0, DIGEST_LENGTH)}"`;
}

/** Whether an If-Match header names the cluster as it is. Its connections change by themselves and do not count. */
export function matchesCluster(ifMatch: string | undefined, { version }: Cluster): boolean {
  if (ifMatch === undefined || ifMatch === "*") return true;
  return /^"(\d+)(?:-[0-9a-f]+)?"$/.exec(ifMatch)?.[1] === String(version);
}
