import { z } from "zod";
import { int64 } from "../field.ts";

/** The broker takes no longer one, in bytes. */
const GROUP_ID_MAX = 4_096;

export const groupId = z.string().min(1).max(GROUP_ID_MAX);

const partition = z.object({
  topic: z.string(),
  partition: z.int(),
  committed_offset: int64.nullable().meta({
    description: "Null where a member is assigned the partition and nothing is committed yet",
  }),
  start_offset: int64.meta({
    description: "The first offset that can be read; -1 where the partition is offline",
  }),
  end_offset: int64.meta({
    description: "One past the last offset that can be read; -1 where the partition is offline",
  }),
  lag: int64.meta({
    description:
      "Records between the committed offset and the end. Without a commit it counts from the start of the log, as auto.offset.reset=earliest reads. -1 where the partition is offline: its lag is unknown",
  }),
  uncommitted: z.boolean().meta({
    description:
      "Nothing is committed: where the group will begin depends on the consumer's auto.offset.reset, which the broker does not know",
  }),
  out_of_range: z.boolean().meta({
    description:
      "The committed offset is before the start or behind the end of the log, so the group goes on where auto.offset.reset says. Its lag counts from the start, or is 0",
  }),
});

export const ConsumerGroup = z
  .object({
    group_id: z.string(),
    state: z.string().meta({ description: "Kafka's group state, such as Stable or Empty" }),
    protocol_type: z.string().meta({ description: "As consumer, or share for a share group" }),
    members: z.int(),
    idle: z.boolean().meta({ description: "The group has no members: its lag only grows" }),
    total_lag: int64.meta({
      description:
        "Sum of the partitions' known lag, in records; -1 where the group is a share group, which commits no offsets",
    }),
    partitions: z.array(partition),
  })
  .meta({ id: "ConsumerGroup" });
export type ConsumerGroup = z.infer<typeof ConsumerGroup>;

export const ConsumerGroupDetails = z
  .object({
    ...ConsumerGroup.shape,
    assignor: z.string().meta({ description: "Empty unless the group is stable" }),
    group_members: z.array(
      z.object({
        member_id: z.string(),
        instance_id: z
          .string()
          .nullable()
          .meta({ description: "group.instance.id of a static member" }),
        client_id: z.string(),
        host: z.string().meta({ description: "The address that the member connects from" }),
        partition_count: z.int(),
      }),
    ),
    partitions: z.array(
      z.object({
        ...partition.shape,
        member_id: z
          .string()
          .nullable()
          .meta({ description: "The member that is assigned the partition" }),
      }),
    ),
  })
  .meta({ id: "ConsumerGroupDetails" });
export type ConsumerGroupDetails = z.infer<typeof ConsumerGroupDetails>;
