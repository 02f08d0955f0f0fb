import type {
  ConsumerGroup,
  ConsumerGroupSummary,
  DescribedConsumerGroup,
  PartitionLag,
} from "@millrace/domain";
import { z } from "zod";
import type { AdminTransport } from "./admin-transport.ts";

const BOUNDS = {
  /** A page takes the broker some ten milliseconds; it may be under load. */
  timeoutMs: 5_000,
  /** A page of 10,000 partitions has 3 MiB; a single group may have ten times as many. */
  bytesMax: 32 * 1024 * 1024,
} as const;

/** Which groups of all, in order of their ids. */
export interface GroupRange {
  /** Only ids that come after this one. */
  readonly after?: string | undefined;
  /** 1,000 at most. A page may have fewer: it ends with the group that brings it to 10,000 partitions. */
  readonly limit?: number;
  readonly signal?: AbortSignal;
}

/** `next` is the id to go on `after`; undefined on the last page. */
export interface GroupPage<T> {
  readonly groups: T[];
  readonly next: string | undefined;
}

const int64 = z
  .string()
  .regex(/^\d{1,20}$/)
  .transform(BigInt);
const int64OrNone = int64.nullable().transform((value) => value ?? undefined);
const textOrNone = z
  .string()
  .nullable()
  .transform((value) => value ?? undefined);
const count = z.int().nonnegative();

const partition = z.object({
  topic: z.string(),
  partition: count,
  member_id: textOrNone,
  committed_offset: int64OrNone,
  start_offset: int64OrNone,
  end_offset: int64OrNone,
  lag: int64OrNone,
  out_of_range: z.boolean(),
});

const summary = z.object({
  group_id: z.string(),
  state: z.string(),
  protocol_type: z.string(),
  member_count: count,
  partition_count: count,
  offline_partition_count: count,
  lag: int64,
  committed_offset_sum: int64,
});

const group = summary.extend({ partitions: z.array(partition) });

const describedGroup = group.extend({
  protocol: z.string(),
  members: z.array(
    z.object({
      member_id: z.string(),
      instance_id: textOrNone,
      client_id: z.string(),
      host: z.string(),
      partition_count: count,
    }),
  ),
});

const pageOf = <T extends z.ZodType>(one: T) =>
  z.object({ groups: z.array(one), next: textOrNone });
const SummaryPage = pageOf(summary);
const GroupPageAnswer = pageOf(group);

/** Consumer groups of a broker over its admin HTTP. Methods throw `BrokerError`. */
export class BrokerGroups {
  readonly #transport: AdminTransport;

  constructor(transport: AdminTransport) {
    this.#transport = transport;
  }

  /** Each with its partitions. */
  async list(range: GroupRange = {}): Promise<GroupPage<ConsumerGroup>> {
    const path = listPath(range, "partitions");
    const { groups, next } = await this.#transport.json(path, GroupPageAnswer, boundsOf(range));
    return { groups: groups.map(groupOf), next };
  }

  async summaries(range: GroupRange = {}): Promise<GroupPage<ConsumerGroupSummary>> {
    const path = listPath(range);
    const { groups, next } = await this.#transport.json(path, SummaryPage, boundsOf(range));
    return { groups: groups.map(summaryOf), next };
  }

  /** `group_not_found` where there is none. */
  async describe(groupId: string): Promise<DescribedConsumerGroup> {
    const path = `/v1/groups/${encodeURIComponent(groupId)}`;
    const answer = await this.#transport.json(path, describedGroup, BOUNDS);
    return {
      ...groupOf(answer),
      assignor: answer.protocol,
      groupMembers: answer.members.map((member) => ({
        memberId: member.member_id,
        instanceId: member.instance_id,
        clientId: member.client_id,
        host: member.host,
        partitionCount: member.partition_count,
      })),
    };
  }
}

function boundsOf({ signal }: GroupRange) {
  return { ...BOUNDS, signal };
}

function summaryOf(answer: z.infer<typeof summary>): ConsumerGroupSummary {
  return {
    groupId: answer.group_id,
    state: answer.state,
    protocolType: answer.protocol_type,
    members: answer.member_count,
    lag: answer.lag,
    partitionCount: answer.partition_count,
    offlinePartitionCount: answer.offline_partition_count,
    committedOffsetSum: answer.committed_offset_sum,
  };
}

function groupOf(answer: z.infer<typeof group>): ConsumerGroup {
  return { ...summaryOf(answer), partitions: answer.partitions.map(partitionOf) };
}

function partitionOf(answer: z.infer<typeof partition>): PartitionLag {
  return {
    topic: answer.topic,
    partition: answer.partition,
    memberId: answer.member_id,
    committedOffset: answer.committed_offset,
    startOffset: answer.start_offset,
    endOffset: answer.end_offset,
    lag: answer.lag,
    outOfRange: answer.out_of_range,
  };
}

function listPath({ after, limit }: GroupRange, include?: string): string {
  const query = new URLSearchParams();
  if (after !== undefined) query.set("after", after);
  if (limit !== undefined) query.set("limit", String(limit));
  if (include !== undefined) query.set("include", include);
  return query.size === 0 ? "/v1/groups" : `/v1/groups?${query}`;
}
