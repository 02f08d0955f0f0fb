import type { RecordBudget, RecordPageAnswer, RecordSelection } from "@millrace/broker-admin";
import type { Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { readSlots } from "../request-slots.ts";
import { atTopic, type TopicAddress } from "./at-topic.ts";
import { assertOneStart } from "./record-start.ts";

export interface ListRecordsInput extends TopicAddress {
  readonly query: RecordSelection & RecordBudget;
  /** Aborts when the caller has gone; the broker stops looking. */
  readonly signal: AbortSignal;
  /** Resolves when the answer was sent: until then it is in memory. */
  readonly answered: Promise<void>;
}

/** A page of a topic's records. Throws what `atTopic` throws, `rate_limited` where too much is read. */
export async function listRecords(
  core: Core,
  principal: Principal,
  { query, signal, answered, ...topic }: ListRecordsInput,
): Promise<RecordPageAnswer> {
  assertOneStart(query);
  const release = core.requestSlots.acquire("read", principal, readSlots(query));
  void answered.then(release);
  return atTopic(core, principal, topic, (records) => records.list(topic.topicName, query, signal));
}
