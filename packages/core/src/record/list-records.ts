import type { RecordBudget, RecordPageAnswer, RecordSelection } from "@millrace/broker-admin";
import type { Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { atTopic, type TopicAddress } from "./at-topic.ts";
import { assertOneStart } from "./record-start.ts";

export interface ListRecordsInput extends TopicAddress {
  readonly query: RecordSelection & RecordBudget;
  /** Aborts when the caller has gone; the broker stops looking. */
  readonly signal: AbortSignal;
}

/** A page of a topic's records. Throws what `atTopic` throws. */
export async function listRecords(
  core: Core,
  principal: Principal,
  { query, signal, ...topic }: ListRecordsInput,
): Promise<RecordPageAnswer> {
  assertOneStart(query);
  const release = core.recordSlots.acquire("read", principal);
  try {
    return await atTopic(core, principal, topic, (records) =>
      records.list(topic.topicName, query, signal),
    );
  } finally {
    release();
  }
}
