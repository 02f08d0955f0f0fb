/** ACLs at the real broker: what the control plane writes is what the broker reports, and checks. */
import type { Acl } from "@millrace/domain";
import { describe, expect, test } from "vitest";
import { installation } from "./fixture.ts";
import { adminHttp, brokerBin } from "./real-broker.ts";

const TIMEOUT_MS = 240_000;
const RULE: Acl = {
  principal: "User:alice",
  resourceType: "topic",
  resourceName: "orders",
  patternType: "literal",
  operation: "write",
  permission: "allow",
  host: "*",
};

const it = installation();

describe.skipIf(brokerBin === undefined)("with the real broker", () => {
  test("a cluster of this machine checks ACLs, which are created, found and deleted", {
    timeout: TIMEOUT_MS,
  }, async () => {
    await it.startProduct({ stopBrokers: true, brokerBin: brokerBin ?? "" });
    const { cluster, operation } = await it.requestCluster("acls");
    await it.waitForOperation(cluster, operation.id);
    const admin = await adminHttp(it.home, await it.waitForPhase(cluster, "RUNNING"));
    expect(await admin.listAcls()).toEqual([]);
    const prefixed: Acl = {
      ...{ ...RULE, resourceName: "ord", patternType: "prefixed" },
      ...{ operation: "describe_configs", permission: "deny", host: "10.0.0.1" },
    };
    const group: Acl = { ...RULE, resourceType: "group", operation: "read" };
    await admin.createAcls([RULE, prefixed, group]);
    await admin.createAcls([RULE]);
    expect(await admin.listAcls()).toHaveLength(3);
    const match = {
      resourceType: "topic",
      resourceName: "orders",
      patternType: "match",
    } as const;
    const matching = await admin.listAcls(match);
    expect(matching).toHaveLength(2);
    expect(matching).toEqual(expect.arrayContaining([RULE, prefixed]));
    expect(await admin.listAcls({ permission: "deny" })).toEqual([prefixed]);
    expect(await admin.deleteAcl(RULE)).toBe(true);
    expect(await admin.deleteAcl(RULE)).toBe(false);
    expect(await admin.listAcls(match)).toEqual([prefixed]);
  });
});
