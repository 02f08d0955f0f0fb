import { BrokerError, type ProduceAnswer, type ProduceRequest } from "@millrace/broker-admin";
import { DomainError, isInternalTopic, type Principal, validationFailed } from "@millrace/domain";
import type { Core } from "../core.ts";
import { atTopic, type TopicAddress } from "./at-topic.ts";

export interface ProduceRecordsInput extends TopicAddress {
  readonly request: ProduceRequest;
}

/**
 * Writes records; each has its own result. Throws what `atTopic` throws, `validation_failed` for an
 * internal topic, and `produce_outcome_unknown`.
 */
export async function produceRecords(
  core: Core,
  principal: Principal,
  { request, ...topic }: ProduceRecordsInput,
): Promise<ProduceAnswer> {
  return atTopic(core, principal, topic, async (records) => {
    if (isInternalTopic(topic.topicName)) throw readOnly();
    try {
      return await records.produce(topic.topicName, request);
    } catch (error) {
      throw unknownOutcome(error) ?? error;
    }
  });
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

const UNKNOWN_OUTCOMES: ReadonlySet<string> = new Set([
  "timeout",
  "unreachable",
  "malformed_answer",
]);

/** A request whose answer is missing or cannot be read may have been carried out. */
function unknownOutcome(error: unknown): DomainError | undefined {
  if (!(error instanceof BrokerError) || !UNKNOWN_OUTCOMES.has(error.code)) return undefined;
  if (isRefusedConnection(error)) return undefined;
  return new DomainError("produce_outcome_unknown", "The broker did not confirm the records.", {
    remedy:
      "They may have been written. Read the newest records before you send them again, with a new Idempotency-Key.",
    cause: error,
  });
}

/** Whether nothing listened at the broker's address, or it has no gateway: the request was never sent. */
function isRefusedConnection(error: Error): boolean {
  if (error instanceof BrokerError && error.kafkaError === "BROKER_NOT_CONNECTED") return true;
  if ((error as NodeJS.ErrnoException).code === "ECONNREFUSED") return true;
  return error.cause instanceof Error && isRefusedConnection(error.cause);
}
