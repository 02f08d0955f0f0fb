import { RECORD_BYTES_MAX, RECORD_SCAN_MS_MAX } from "@millrace/domain";
import type { AdminTransport } from "./admin-transport.ts";
import { BrokerError, withDeadline } from "./broker-error.ts";
import { EventParser } from "./event-parser.ts";
import {
  isRecordItem,
  ProduceAnswer,
  type ProduceRequest,
  type RecordBudget,
  type RecordItem,
  RecordPageAnswer,
  type RecordSelection,
} from "./record-answer.ts";

/** JSON writes a byte of text with six characters where it is a control character: `\u0001`. */
const JSON_CHARS_PER_BYTE = 6;
/** Names, offsets and brackets of a thousand records and their headers. */
const JSON_FRAME_BYTES = 4 * 1024 * 1024;
/** Bound of one page, and of one record in a stream: a record is no larger than a page. */
const PAGE_BYTES_MAX = RECORD_BYTES_MAX * JSON_CHARS_PER_BYTE + JSON_FRAME_BYTES;
/** A thousand results of some hundred bytes. */
const RESULTS_BYTES_MAX = 1024 * 1024;
/** On top of the time in which the broker scans: for the answer's way through a busy machine. */
const ANSWER_MS = 5_000;
/** A broker gives up on an acknowledgement before that. */
const PRODUCE_TIMEOUT_MS = 35_000;
/** Time until a stream begins; its first record may take longer. */
const STREAM_HEAD_TIMEOUT_MS = 5_000;
/** A broker tells how far it is every two seconds; one that is silent for fifteen such spans is gone. */
const STREAM_IDLE_MS = 30_000;

/** What comes over a stream, and the cursor with which a later one continues after it. */
export interface StreamedRecordItem {
  readonly cursor: string | undefined;
  readonly item: RecordItem;
}

/**
 * Records of a broker's topics over its admin HTTP. Methods throw `BrokerError`: `topic_not_found`
 * also for a partition, `invalid_request` with the broker's words, `request_too_large`, `busy`.
 */
export class BrokerRecords {
  readonly #transport: AdminTransport;

  constructor(transport: AdminTransport) {
    this.#transport = transport;
  }

  async list(
    topic: string,
    query: RecordSelection & RecordBudget,
    signal: AbortSignal,
  ): Promise<RecordPageAnswer> {
    return this.#transport.json(recordsPath(topic, query), RecordPageAnswer, {
      timeoutMs: (query.max_wait_ms ?? RECORD_SCAN_MS_MAX) + ANSWER_MS,
      bytesMax: PAGE_BYTES_MAX,
      signal,
    });
  }

  /** Acknowledged by all replicas. After `timeout` and `unreachable` nobody knows whether it is written. */
  async produce(topic: string, request: ProduceRequest): Promise<ProduceAnswer> {
    return this.#transport.json(recordsPath(topic), ProduceAnswer, {
      method: "POST",
      body: JSON.stringify(request),
      timeoutMs: PRODUCE_TIMEOUT_MS,
      bytesMax: RESULTS_BYTES_MAX,
    });
  }

  /**
   * Records as they come, from the selection's start on. The broker's socket is read as fast as the
   * items are asked for. `signal` ends it; so does `return` of the iterator once it has begun.
   */
  async stream(
    topic: string,
    selection: RecordSelection,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<StreamedRecordItem, void, undefined>> {
    // Only server-sent events carry cursors.
    const body = await this.#transport.stream(recordsPath(topic, selection, "/stream"), {
      accept: "text/event-stream",
      timeoutMs: STREAM_HEAD_TIMEOUT_MS,
      signal,
    });
    return itemsOf(body, signal);
  }
}

async function* itemsOf(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<StreamedRecordItem, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser(PAGE_BYTES_MAX);
  try {
    for (;;) {
      const chunk = await withDeadline(reader.read(), STREAM_IDLE_MS, "read the stream of records");
      if (chunk.done) throw new BrokerError("unreachable", "the broker ended the stream");
      for (const { id, data } of parser.push(decoder.decode(chunk.value, { stream: true }))) {
        const item = itemOf(data);
        yield { cursor: id, item };
        if (item.error !== undefined) return;
      }
    }
  } catch (cause) {
    if (cause instanceof BrokerError || signal.aborted) throw cause;
    throw new BrokerError("unreachable", "the connection to the broker broke", { cause });
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function itemOf(data: string): RecordItem {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw new BrokerError("malformed_answer", "an item of the stream is not JSON", { cause });
  }
  if (isRecordItem(value)) return value;
  throw new BrokerError("malformed_answer", "an item of the stream has another shape");
}

function recordsPath(topic: string, query: object = {}, suffix = ""): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) fields.set(name, String(value));
  }
  const search = fields.size === 0 ? "" : `?${fields}`;
  return `/v1/topics/${encodeURIComponent(topic)}/records${suffix}${search}`;
}
