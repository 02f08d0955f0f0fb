/** Quotas at the real broker: what the control plane sets is what the broker reports. */
import { describe, expect, test } from "vitest";
import { installation } from "./fixture.ts";
import { adminHttp, brokerBin } from "./real-broker.ts";

const TIMEOUT_MS = 240_000;

const it = installation();

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("quotas of users, client ids and defaults are set, read back and removed", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
    const { cluster, operation } = await it.requestCluster("quotas");
    await it.waitForOperation(cluster, operation.id);
    const admin = await adminHttp(it.home, await it.waitForPhase(cluster, "RUNNING"));
    const alice = { user: "alice", clientId: undefined };
    const app = { user: "alice", clientId: "app" };
    const everybody = { user: "<default>", clientId: undefined };
    await admin.alterQuota(alice, { producer_byte_rate: 1_048_576, consumer_byte_rate: 512 });
    await admin.alterQuota(app, { request_percentage: 12.5 });
    await admin.alterQuota(everybody, { controller_mutation_rate: 10 });
    const listed = await admin.listQuotas();
    expect(listed).toHaveLength(3);
    expect(listed).toEqual(
      expect.arrayContaining([
        { ...alice, limits: { producer_byte_rate: 1_048_576, consumer_byte_rate: 512 } },
        { ...app, limits: { request_percentage: 12.5 } },
        { ...everybody, limits: { controller_mutation_rate: 10 } },
      ]),
    );
    const fraction = admin.alterQuota(alice, { consumer_byte_rate: 0.5 });
    await expect(fraction).rejects.toMatchObject({ code: "invalid_request" });
    await admin.alterQuota(alice, { producer_byte_rate: null });
    await admin.alterQuota(app, { request_percentage: null });
    await admin.alterQuota(everybody, { controller_mutation_rate: null });
    expect(await admin.listQuotas()).toEqual([{ ...alice, limits: { consumer_byte_rate: 512 } }]);
  });
});
