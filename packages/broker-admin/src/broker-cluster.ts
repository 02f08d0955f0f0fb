import { type ClusterMembers, MEMBER_STATES } from "@millrace/domain";
import { z } from "zod";

const count = z.int().nonnegative();

/** What a broker that shares its metadata answers at `/v1/cluster`, for all brokers. */
export const ClusterAnswer = z.object({
  brokers: z.array(
    z.object({
      node_id: count,
      state: z.enum(MEMBER_STATES),
      rack: z.string().nullable(),
      version: z.string(),
      leaders: count,
      moving: count.default(0),
      load: count.nullish(),
    }),
  ),
  events: z.array(
    z.object({
      at_ms: z.int(),
      kind: z.string(),
      node_id: count.nullable(),
      text: z.string(),
    }),
  ),
});

export function membersOf({ brokers, events }: z.output<typeof ClusterAnswer>): ClusterMembers {
  return {
    members: brokers.map(({ node_id: brokerId, state, rack, version, leaders, moving, load }) => {
      const known = { rack: rack ?? undefined, load: load ?? undefined };
      return { brokerId, state, version, leaders, moving, ...known };
    }),
    events: events.map(({ at_ms: atMs, kind, node_id: brokerId, text }) => {
      return { at: new Date(atMs), kind, brokerId: brokerId ?? undefined, text };
    }),
  };
}
