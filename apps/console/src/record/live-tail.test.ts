import type { KafkaRecord, RecordStreamItem } from "@millrace/contract";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiFailure } from "../api/client.tsx";
import { LiveTail, TAIL_ROWS_MAX } from "./live-tail.ts";
import { recordOf } from "./record.fixture.ts";
import { linesOf } from "./record-stream.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A topic without end: records count up from the cursor; `taken` is how far it was read. */
function endless() {
  const topic = { taken: 0, opened: [] as (string | undefined)[], open: 0 };
  async function* stream(
    cursor: string | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<RecordStreamItem> {
    topic.opened.push(cursor);
    topic.open += 1;
    // As a browser closes a connection: at once, whoever reads.
    signal.addEventListener("abort", () => {
      topic.open -= 1;
    });
    for (let offset = Number(cursor ?? 0); ; offset += 1) {
      await Promise.resolve();
      signal.throwIfAborted();
      topic.taken = offset + 1;
      yield { record: recordOf({ offset: String(offset) }), cursor: String(offset + 1) };
    }
  }
  return { topic, stream };
}

const offsets = (records: readonly KafkaRecord[]) => records.map(({ offset }) => Number(offset));

test("a browser that draws slowly is sent no more than it draws", async () => {
  const { topic, stream } = endless();
  const tail = new LiveTail(stream);
  tail.resume();
  await vi.advanceTimersByTimeAsync(100);
  expect(topic.taken).toBe(500);
  await vi.advanceTimersByTimeAsync(1_000);
  const { received, records } = tail.snapshot();
  expect(received).toBeLessThanOrEqual(6 * 500);
  expect(records).toHaveLength(TAIL_ROWS_MAX);
  expect(records[0]?.offset).toBe(String(received - 1));
  tail.stop();
});

test("a stream that the API ends is continued after its last record", async () => {
  const opened: (string | undefined)[] = [];
  async function* three(cursor: string | undefined): AsyncGenerator<RecordStreamItem> {
    opened.push(cursor);
    const first = Number(cursor ?? 0);
    for (let offset = first; offset < Math.min(first + 3, 6); offset += 1) {
      await Promise.resolve();
      yield { record: recordOf({ offset: String(offset) }), cursor: String(offset + 1) };
    }
  }
  const tail = new LiveTail(three);
  tail.resume();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(opened).toEqual([undefined, "3", "6"]);
  expect(offsets(tail.snapshot().records)).toEqual([5, 4, 3, 2, 1, 0]);
  // A stream that ends at once is not opened again and again.
  expect(tail.snapshot()).toMatchObject({ state: "failed", problem: "The connection was closed." });
});

test("a pause closes the stream, and no record is lost or repeated", async () => {
  const { topic, stream } = endless();
  const tail = new LiveTail(stream);
  const seen: number[] = [];
  let drawn = 0;
  tail.subscribe(() => {
    const { records, received } = tail.snapshot();
    seen.push(...offsets(records.slice(0, received - drawn)).toReversed());
    drawn = received;
  });
  for (let round = 0; round < 5; round += 1) {
    tail.resume();
    await vi.advanceTimersByTimeAsync(330);
    tail.pause();
    await vi.advanceTimersByTimeAsync(10);
    expect(topic.open).toBe(0);
    const { taken } = topic;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(topic.taken).toBe(taken);
  }
  expect(tail.snapshot().state).toBe("paused");
  expect(seen).toEqual(Array.from(seen, (_, index) => index));
  expect(seen.length).toBeGreaterThan(2_000);
});

test("a tail that fails says why, and continues where it was", async () => {
  const opened: (string | undefined)[] = [];
  const tail = new LiveTail(async function* (cursor) {
    opened.push(cursor);
    yield { record: recordOf({ offset: "7" }), cursor: "c8" };
    throw new ApiFailure("The broker does not respond.");
  }, "c7");
  tail.resume();
  await vi.advanceTimersByTimeAsync(500);
  expect(tail.snapshot()).toMatchObject({
    state: "failed",
    problem: "The broker does not respond.",
    received: 1,
  });
  tail.resume();
  await vi.advanceTimersByTimeAsync(500);
  expect(opened).toEqual(["c7", "c8"]);
});

test("what the broker looked at adds up over pauses", async () => {
  const tail = new LiveTail(async function* (_, signal) {
    yield { progress: { scanned_records: 10, scanned_bytes: 1, partitions: [] }, cursor: "c" };
    await new Promise((_resolve, reject) => signal.addEventListener("abort", reject));
  });
  for (let round = 0; round < 3; round += 1) {
    tail.resume();
    await vi.advanceTimersByTimeAsync(500);
    expect(tail.snapshot().state).toBe("live");
    tail.pause();
  }
  expect(tail.snapshot().scanned).toBe(30);
});

test("lines are the same however the body was cut", async () => {
  const bytes = new TextEncoder().encode('{"a":"ä"}\n\n{"b":2}\nunfinished');
  for (let size = 1; size < bytes.length; size += 1) {
    const chunks: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
    const lines = [];
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const chunk = chunks.shift();
        if (chunk === undefined) controller.close();
        else controller.enqueue(chunk);
      },
    });
    for await (const line of linesOf(body)) lines.push(line);
    expect(lines).toEqual(['{"a":"ä"}', '{"b":2}']);
  }
});
