import { BrokerError, type ProduceAnswer, type ProduceRequest } from "@millrace/broker-admin";
import { DomainError, isInternalTopic, type Principal, validationFailed } from "@millrace/domain";
import { requireCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";
import { atTopic, type TopicAddress } from "./at-topic.ts";

export interface ProduceRecordsInput extends TopicAddress {
  readonly request: ProduceRequest;
}

/**
 * Writes records; each has its own result. Throws what `atTopic` throws, and `validation_failed`
 * for an internal topic.
 */
export async function produceRecords(
  core: Core,
  principal: Principal,
  { request, ...topic }: ProduceRecordsInput,
): Promise<ProduceAnswer> {
  await requireCluster(core, principal, topic.clusterId);
  if (isInternalTopic(topic.topicName)) throw readOnly();
  const release = core.recordSlots.acquire("produce", principal);
  try {
    return await atTopic(core, principal, topic, async (records) => {
      try {
        return await records.produce(topic.topicName, request);
      } catch (error) {
        throw unknownOutcome(error) ?? error;
      }
    });
  } finally {
    release();
  }
}

function readOnly(): DomainError {
  return validationFailed([
    {
      pointer: "/topic_name",
      code: "internal_topic",
      message: "is an internal topic: its records can be read, not written",
    },
  ]);
}

/** A request that was not answered may have been carried out. */
function unknownOutcome(error: unknown): DomainError | undefined {
  if (!(error instanceof BrokerError) || error.code !== "timeout") return undefined;
  return new DomainError("broker_unavailable", "The broker did not confirm the records in time.", {
    remedy: "They may have been written. Read the newest records before you send them again.",
    retryAfterSeconds: 3,
    cause: error,
  });
}
