import {
  Admin,
  type Callback,
  type ClusterMetadata,
  type ClusterPartitionMetadata,
  kMetadata,
  type MetadataOptions,
  MultipleErrors,
  type metadataV12,
  ResponseError,
} from "@platformatic/kafka";

type MetadataResponse = Awaited<ReturnType<typeof metadataV12.api.async>>;

/** Where the client says that an error belongs to one partition, not to its topic or the answer. */
const PARTITION_PATH = /^\/topics\/\d+\/partitions\/\d+$/;

interface TopicListing {
  /** In order, internal topics included. */
  readonly names: readonly string[];
  /** Partitions that the broker reports an error for, by `partitionKey`. */
  readonly offline: ReadonlySet<string>;
}

export function partitionKey({ topic, partition }: { topic: string; partition: number }): string {
  return `${topic}/${partition}`;
}

/**
 * A client that reads Metadata although some partitions are offline. The library fails the whole
 * answer for an error of one partition, so a single corrupt partition would hide every topic.
 */
export class OfflineTolerantAdmin extends Admin {
  /** All topics. */
  async topicListing(): Promise<TopicListing> {
    try {
      return { names: await this.listTopics({ includeInternals: true }), offline: new Set() };
    } catch (error) {
      const response = partialResponse(error);
      if (response === undefined) throw error;
      return listingOf(response);
    }
  }

  /** Serves `metadata`, and `listOffsets`, which asks for the leaders of whole topics. */
  override [kMetadata](options: MetadataOptions, callback: Callback<ClusterMetadata>): void {
    super[kMetadata](options, (error, metadata) => {
      const response = error ? partialResponse(error) : undefined;
      if (response === undefined) callback(error, metadata);
      else callback(null, metadataOf(response));
    });
  }
}

/** The Metadata answer behind `error`, where only partitions failed. */
function partialResponse(error: unknown): MetadataResponse | undefined {
  if (error instanceof ResponseError) {
    const ofPartitions = error.errors.every(({ path }) => PARTITION_PATH.test(path));
    return ofPartitions ? error.response : undefined;
  }
  // `listTopics` wraps the one error that it got.
  const only = error instanceof MultipleErrors && error.errors.length === 1;
  return only ? partialResponse(error.errors[0]) : undefined;
}

function listingOf({ topics }: MetadataResponse): TopicListing {
  const offline = topics.flatMap(({ name, partitions }) =>
    partitions
      .filter(({ errorCode }) => errorCode !== 0)
      .map(({ partitionIndex }) => partitionKey({ topic: name ?? "", partition: partitionIndex })),
  );
  return { names: topics.map(({ name }) => name ?? "").sort(), offline: new Set(offline) };
}

function metadataOf(response: MetadataResponse): ClusterMetadata {
  // The client's cache never sees this answer, so its age does not matter.
  const lastUpdate = 0;
  const topics = response.topics.map(({ name, topicId, partitions }) => {
    const byIndex: ClusterPartitionMetadata[] = [];
    for (const partition of partitions) {
      byIndex[partition.partitionIndex] = {
        leader: partition.leaderId,
        leaderEpoch: partition.leaderEpoch,
        replicas: partition.replicaNodes,
        isr: partition.isrNodes,
        offlineReplicas: partition.offlineReplicas,
      };
    }
    const topic = { id: topicId, partitions: byIndex, partitionsCount: partitions.length };
    return [name ?? "", { ...topic, lastUpdate }] as const;
  });
  return {
    id: response.clusterId ?? "",
    brokers: new Map(response.brokers.map(({ nodeId, ...broker }) => [nodeId, broker])),
    controllerId: response.controllerId,
    topics: new Map(topics),
    lastUpdate,
  };
}
