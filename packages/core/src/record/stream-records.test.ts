import type { BrokerRecords, StreamedRecordItem } from "@millrace/broker-admin";
import { type Principal, RECORD_STREAM_MS_MAX } from "@millrace/domain";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Core } from "../core.ts";
import { RequestSlots } from "../request-slots.ts";
import { streamRecords } from "./stream-records.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const CALLER = {
  organizationId: "org_a",
  userId: "usr_a",
  role: "developer",
} as unknown as Principal;

/** A broker whose stream gives one item and then waits until it is closed. */
function opened() {
  const broker = { closed: false };
  async function* items(signal: AbortSignal): AsyncGenerator<StreamedRecordItem> {
    yield { cursor: "c1", item: { progress: {} } } as unknown as StreamedRecordItem;
    await new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        broker.closed = true;
        reject(signal.reason);
      });
    });
  }
  const stream: BrokerRecords["stream"] = async (_topic, _selection, signal) => {
    signal.addEventListener("abort", () => {
      broker.closed = true;
    });
    return items(signal) as never;
  };
  const requestSlots = new RequestSlots();
  const core = {
    requestSlots,
    db: { clusters: { get: async () => ({ phase: "RUNNING", conditions: [] }) } },
    brokerHttp: async () => ({ records: { stream } }),
  } as unknown as Core;
  const open = () =>
    streamRecords(core, CALLER, {
      clusterId: "clu_01K00000000000000000000000" as never,
      topicName: "orders",
      selection: { from: "latest" },
      signal: new AbortController().signal,
    });
  return { broker, open };
}

test("a stream ends after ten minutes", async () => {
  const { broker, open } = opened();
  const items = await open();
  expect((await items.next()).value.cursor).toBe("c1");
  const next = items.next();
  await vi.advanceTimersByTimeAsync(RECORD_STREAM_MS_MAX - 1);
  expect(broker.closed).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(await next).toEqual({ done: true, value: undefined });
  expect(broker.closed).toBe(true);
});

test("readers that never read give their slots back", async () => {
  const { broker, open } = opened();
  for (let held = 0; held < 8; held += 1) await open();
  await expect(open()).rejects.toThrow("At most 8 record streams");
  await vi.advanceTimersByTimeAsync(RECORD_STREAM_MS_MAX);
  expect(broker.closed).toBe(true);
  await open();
});
