/** Clusters as the API answers them, for tests. */
import type { Cluster } from "@millrace/contract";
import { regionFacts } from "@millrace/domain";

type Changes = { spec?: Partial<Cluster["spec"]>; status?: Partial<Cluster["status"]> };

/** A small one in Frankfurt that runs. */
export function awsCluster({ spec, status }: Changes = {}): Cluster {
  return {
    metadata: {
      id: "clu_test",
      created_at: "2026-11-20T12:00:00.000Z",
      updated_at: "2026-11-20T12:00:00.000Z",
      etag: '"1-aa"',
      revision: 1,
      labels: { team: "payments", stage: "prod" },
    },
    spec: {
      name: "orders",
      region: "eu-central-1",
      size: "small",
      environment_id: "env_test",
      deletion_protection: true,
      plaintext_listener: true,
      brokers: 1,
      zones: regionFacts("eu-central-1").zones.length,
      paused: false,
      wal: { type: "gp3", size_gib: 20, iops: 3000, throughput_mibps: 125 },
      network: {
        vpc_id: null,
        subnet_ids: [],
        cidr: "10.40.0.0/16",
        access: "private",
        allowed_principals: [],
        allowed_cidrs: [],
      },
      storage: { kms_key_arn: null },
      ...spec,
    },
    status: {
      phase: "RUNNING",
      provider: "aws",
      conditions: [],
      endpoints: [],
      brokers: [{ broker_id: 0, control_link: "connected", since: "2026-11-20T12:00:00.000Z" }],
      observed_revision: 1,
      purge_at: null,
      drift: "in_sync",
      wal_capacity_bytes: String(18 * 1024 ** 3),
      estimated_monthly_cost_usd: 0,
      ...status,
    },
  };
}

/** A development cluster on this machine. */
export function localCluster(): Cluster {
  return awsCluster({
    spec: {
      region: "local",
      size: "dev",
      deletion_protection: false,
      plaintext_listener: true,
      zones: 1,
      wal: null,
      network: null,
      storage: null,
    },
    status: { provider: "local", wal_capacity_bytes: String(256 * 1024 ** 2) },
  });
}
