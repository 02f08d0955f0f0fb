import { listClientMetrics as contract } from "@millrace/contract";
import { listClientMetrics } from "@millrace/core";
import type { MeasuredClient } from "@millrace/domain";
import { procedure } from "../procedure.ts";

export const listClientMetricsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const { cluster_id: clusterId, client_id: clientId, metric, limit } = input;
    const found = await listClientMetrics(ctx.core, ctx.principal, {
      ...{ clusterId, clientId, metric, limit },
    });
    return { items: found.clients.map(presentClient), truncated: found.isTruncated };
  });

function presentClient(client: MeasuredClient) {
  return {
    client_id: client.clientId,
    client_instance_id: client.instanceId,
    software_name: client.softwareName ?? null,
    software_version: client.softwareVersion ?? null,
    address: client.address,
    interval_ms: client.intervalMs,
    pushed_at: client.pushedAt.toISOString(),
    terminating: client.isTerminating,
    metrics: client.metrics.map(({ labels, count, ...metric }) => ({
      ...metric,
      ...{ labels: { ...labels }, count: count ?? null },
    })),
  };
}
