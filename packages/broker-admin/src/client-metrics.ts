import { CLIENT_METRIC_KINDS, type MeasuredClient, type MeasuredClients } from "@millrace/domain";
import { z } from "zod";

/** What a broker answers at `/v1/client-metrics`. */
export const ClientMetricsAnswer = z.object({
  clients: z.array(
    z.object({
      client_id: z.string(),
      client_instance_id: z.string(),
      software_name: z.string().nullable(),
      software_version: z.string().nullable(),
      address: z.string(),
      interval_ms: z.number(),
      pushed_at: z.iso.datetime(),
      terminating: z.boolean(),
      metrics: z.array(
        z.object({
          name: z.string(),
          labels: z.record(z.string(), z.string()),
          kind: z.enum(CLIENT_METRIC_KINDS),
          value: z.number().nullable(),
          count: z.number().optional(),
        }),
      ),
    }),
  ),
  truncated: z.boolean(),
});

export function measuredClientsOf({
  clients,
  truncated,
}: z.output<typeof ClientMetricsAnswer>): MeasuredClients {
  const client = (one: (typeof clients)[number]): MeasuredClient => ({
    clientId: one.client_id,
    instanceId: one.client_instance_id,
    softwareName: one.software_name ?? undefined,
    softwareVersion: one.software_version ?? undefined,
    address: one.address,
    intervalMs: one.interval_ms,
    pushedAt: new Date(one.pushed_at),
    isTerminating: one.terminating,
    metrics: one.metrics.map((metric) => ({ ...metric, count: metric.count })),
  });
  return { clients: clients.map(client), isTruncated: truncated };
}

/** Merges the answers of several brokers. Of a client that changed brokers, the latest push counts. */
export function mergeMeasuredClients(
  answers: readonly MeasuredClients[],
  limit: number,
): MeasuredClients {
  const newest = new Map<string, MeasuredClient>();
  for (const client of answers.flatMap(({ clients }) => clients)) {
    const known = newest.get(client.instanceId);
    if (known === undefined || client.pushedAt > known.pushedAt) {
      newest.set(client.instanceId, client);
    }
  }
  const all = [...newest.values()].sort(byId);
  return {
    clients: all.slice(0, limit),
    isTruncated: all.length > limit || answers.some(({ isTruncated }) => isTruncated),
  };
}

function byId(a: MeasuredClient, b: MeasuredClient): number {
  const keys = [
    [a.clientId, b.clientId],
    [a.instanceId, b.instanceId],
  ] as const;
  for (const [left, right] of keys) {
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}
