import type { ClusterDeployment } from "../src/index.ts";

/** A small cluster on this machine, but for its id and place. */
export const LOCAL_DEPLOYMENT = {
  organizationId: "org_a",
  environmentId: "env_a",
  name: "orders",
  region: "local",
  size: "dev",
  brokers: 1,
  paused: false,
  plaintextListener: true,
  labels: {},
  walCapacityBytes: 1024 * 1024,
  properties: {},
} as const satisfies Omit<ClusterDeployment, "clusterId" | "placement">;
