import { BrokerError, type RecordSelection, type StreamedRecordItem } from "@millrace/broker-admin";
import { DomainError, type Principal, RECORD_STREAM_MS_MAX } from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import type { Core } from "../core.ts";
import { atTopic, recordFailure, type TopicAddress } from "./at-topic.ts";
import { assertOneStart } from "./record-start.ts";

export interface StreamRecordsInput extends TopicAddress {
  readonly selection: RecordSelection;
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal;
}

/**
 * A topic's records as they come, for `RECORD_STREAM_MS_MAX`, so that no reader that never reads
 * holds its slot for ever. The broker is read no faster than the items are asked for, so a caller
 * that stops reading costs nothing. Throws what `atTopic` throws, `rate_limited` where too many
 * streams are open; a failure afterwards is the last item.
 */
export async function streamRecords(
  core: Core,
  principal: Principal,
  { selection, signal, ...topic }: StreamRecordsInput,
): Promise<AsyncIterableIterator<StreamedRecordItem>> {
  assertOneStart(selection);
  const release = core.requestSlots.acquire("stream", principal);
  const gone = new AbortController();
  const leave = () => gone.abort();
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    close();
  }, RECORD_STREAM_MS_MAX);
  const close = () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", leave);
    gone.abort();
    release();
  };
  signal.addEventListener("abort", leave, { once: true });
  try {
    signal.throwIfAborted();
    const items = await atTopic(core, principal, topic, (records) =>
      records.stream(topic.topicName, selection, gone.signal),
    );
    gone.signal.addEventListener("abort", close, { once: true });
    return closing(items, topic.topicName, close, () => expired);
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * The items; `close` runs when they end, fail, or the reader leaves, even before the first one: a
 * generator that was never started would not run its own clean-up.
 */
function closing(
  items: AsyncIterator<StreamedRecordItem>,
  topic: string,
  close: () => void,
  expired: () => boolean,
): AsyncIterableIterator<StreamedRecordItem> {
  let ended = false;
  const end = (): IteratorResult<StreamedRecordItem> => {
    ended = true;
    close();
    return { done: true, value: undefined };
  };
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      if (ended || expired()) return end();
      try {
        const result = await items.next();
        return result.done ? end() : result;
      } catch (error) {
        if (expired()) return end();
        if (!(error instanceof BrokerError)) {
          end();
          throw error;
        }
        end();
        return { done: false, value: { cursor: undefined, item: await failureItem(topic, error) } };
      }
    },
    async return() {
      const result = end();
      await items.return?.();
      return result;
    },
  };
}

/** A failure of the broker in the words that a request would have failed with. */
async function failureItem(topic: string, error: BrokerError): Promise<StreamedRecordItem["item"]> {
  const failure = await atBroker(topic, () => Promise.reject(recordFailure(error) ?? error)).catch(
    (each: unknown) => each,
  );
  if (!(failure instanceof DomainError)) throw failure;
  return { error: { code: failure.code, message: failure.message } };
}
