import { performServerHandshake } from "node:http2";
import { duplexPair } from "node:stream";
import { newId } from "@millrace/domain";
import { afterEach, expect, test, vi } from "vitest";
import { PING_INTERVAL_MS } from "./bounds.ts";
import { Link } from "./link.ts";

afterEach(() => {
  vi.useRealTimers();
});

test("a drained link whose connection takes its time to close is not pinged", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const [gateway, broker] = duplexPair();
  const server = performServerHandshake(broker);
  server.on("error", () => {});
  const link = await Link.on(gateway, {
    ...{ clusterId: newId("clu"), brokerId: 0, linkId: "1", secretHash: new Uint8Array(32) },
    ...{ remoteAddress: "", brokerVersion: "", brokerStart: "" },
  });
  // What is left to be written never is.
  gateway._final = () => {};
  link.drain();
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  vi.advanceTimersByTime(PING_INTERVAL_MS);
  expect(link.hasEnded).toBe(true);
  server.destroy();
});
