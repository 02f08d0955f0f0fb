import { expect, test } from "vitest";
import { QuotaUsageAnswer, quotaUsageOf } from "./quota-usage.ts";

test("the broker's answer in our terms, without quotas that are not ours", () => {
  const row = { user: "alice", client_id: null, limit: 10, rate: 2.5, throttle_ms: 0 };
  const answer = QuotaUsageAnswer.parse({
    usage: [
      { ...row, quota: "producer_byte_rate" },
      { ...row, quota: "connection_creation_rate" },
    ],
    total: 2,
  });
  expect(quotaUsageOf(answer)).toEqual([
    {
      ...{ quota: "producer_byte_rate", user: "alice", clientId: undefined },
      ...{ limit: 10, rate: 2.5, throttleMs: 0 },
    },
  ]);
});
