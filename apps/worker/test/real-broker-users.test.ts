/** Users of a cluster at the real broker: what the control plane writes is what the broker reports. */
import { describe, expect, test } from "vitest";
import { installation } from "./fixture.ts";
import { adminHttp, brokerBin } from "./real-broker.ts";

const TIMEOUT_MS = 240_000;

const it = installation();

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("a user is created with both mechanisms, loses one, then the other, and is gone", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
    const { cluster, operation } = await it.requestCluster("users");
    await it.waitForOperation(cluster, operation.id);
    const admin = await adminHttp(it.home, await it.waitForPhase(cluster, "RUNNING"));
    const others = (await admin.listUsers()).map(({ name }) => name);
    await expect(admin.describeUser("alice")).rejects.toMatchObject({ code: "user_not_found" });
    await admin.putPassword("alice", "her password", ["SCRAM-SHA-256", "SCRAM-SHA-512"]);
    await admin.putPassword("bob", "his password", ["SCRAM-SHA-256"]);
    const alice = { name: "alice", mechanisms: ["SCRAM-SHA-256", "SCRAM-SHA-512"] };
    expect(await admin.describeUser("alice")).toEqual(alice);
    const listed = (await admin.listUsers()).filter(({ name }) => !others.includes(name));
    expect(listed).toEqual([alice, { name: "bob", mechanisms: ["SCRAM-SHA-256"] }]);
    await admin.removeCredentials("alice", ["SCRAM-SHA-256"]);
    expect((await admin.describeUser("alice")).mechanisms).toEqual(["SCRAM-SHA-512"]);
    const twice = admin.removeCredentials("alice", ["SCRAM-SHA-256"]);
    await expect(twice).rejects.toMatchObject({ code: "user_not_found" });
    await admin.removeCredentials("alice", ["SCRAM-SHA-512"]);
    await expect(admin.describeUser("alice")).rejects.toMatchObject({ code: "user_not_found" });
    const tooLong = admin.putPassword("x".repeat(257), "a password", ["SCRAM-SHA-256"]);
    await expect(tooLong).rejects.toMatchObject({ code: "invalid_user" });
  });
});
