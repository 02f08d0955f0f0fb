import { type Broker, listBrokers as contract } from "@millrace/contract";
import { type BrokerView, listBrokers } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentBroker } from "./present-cluster.ts";

export const listBrokersProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(async ({ ctx, input }) => {
    const { cluster, brokers, events } = await listBrokers(
      ctx.core,
      ctx.principal,
      input.cluster_id,
    );
    return {
      brokers: brokers.map((broker) => ({
        ...present(broker),
        control_link: presentBroker(cluster, broker.brokerId, broker.link).control_link,
      })),
      events: events.map(({ at, kind, brokerId, text }) => {
        return { at: at.toISOString(), kind, broker_id: brokerId ?? null, text };
      }),
    };
  });

function present({ brokerId, member, report, link }: BrokerView): Omit<Broker, "control_link"> {
  const { storage, uptimeMs } = report ?? {};
  return {
    broker_id: brokerId,
    // One that is alone serves if it answers.
    state: member?.state ?? (storage === undefined ? "unknown" : "active"),
    zone: member?.rack ?? null,
    version: member?.version ?? report?.version ?? null,
    uptime_seconds: uptimeMs === undefined ? null : Math.floor(uptimeMs / 1_000),
    leaders: member?.leaders ?? null,
    moving: member?.moving ?? null,
    load: member?.load === undefined ? null : String(member.load),
    wal:
      storage === undefined
        ? null
        : {
            capacity_bytes: String(storage.walCapacityBytes),
            used_bytes: String(storage.walUsedBytes),
            seconds_left:
              storage.walSecondsLeft === undefined ? null : Math.floor(storage.walSecondsLeft),
            upload_pending_bytes: String(storage.uploadPendingBytes),
            uploads_wait_for: storage.uploadsWaitFor ?? null,
          },
    last_heard_at: link?.lastHeardAt.toISOString() ?? null,
  };
}
