import { expect, test } from "vitest";
import { FakeEc2, type FakeResource } from "../../test/fake-ec2.ts";
import type { AwsClients } from "./aws-account.ts";
import { rejectConnections } from "./endpoint-connections.ts";
import { askingAws } from "./sdk-errors.ts";
import { removeStrays } from "./strays.ts";

function removal(resources: readonly FakeResource[], data: boolean) {
  const ec2 = new FakeEc2(resources);
  const scheduled: unknown[] = [];
  const kms = { send: async ({ input }: { input: unknown }) => void scheduled.push(input) };
  const clients = { ec2: ec2.client, kms } as unknown as Pick<AwsClients, "ec2" | "kms">;
  const strays = resources.map(({ id, address }) => ({ id, address }));
  return { ec2, scheduled, run: () => removeStrays(clients, strays, { data }) };
}

const KEY = "7f3c9a52-0000-4000-8000-000000000000";
const EACH: FakeResource[] = [
  { id: "vpc-1", address: "a" },
  { id: "vol-1", address: "b" },
  { id: KEY, address: "c" },
  { id: "subnet-1", address: "d" },
  { id: "sgr-1", address: "e" },
  { id: "sgr-2", address: "f", egress: true },
];

test("strays without data are removed, dependents first; the rest is left", async () => {
  const { ec2, run, scheduled } = removal(EACH, false);
  const { removed, left } = await run();
  expect(ec2.changes).toEqual([
    "RevokeSecurityGroupIngress sgr-1",
    "RevokeSecurityGroupEgress sgr-2",
    "DeleteSubnet subnet-1",
    "DeleteVpc vpc-1",
  ]);
  expect(removed.map(({ id }) => id)).toEqual(["sgr-1", "sgr-2", "subnet-1", "vpc-1"]);
  expect(left).toEqual([
    { id: "vol-1", address: "b" },
    { id: KEY, address: "c" },
  ]);
  expect(scheduled).toEqual([]);
});

test("a purge removes strays with data", async () => {
  const { ec2, run, scheduled } = removal(EACH, true);
  expect((await run()).left).toEqual([]);
  expect(ec2.changes).toContain("DeleteVolume vol-1");
  expect(scheduled).toEqual([{ KeyId: KEY, PendingWindowInDays: 7 }]);
});

test("strays in use are left, those that are gone are in no list, other failures are errors", async () => {
  const held = removal([{ id: "subnet-1", address: "a", held: "DependencyViolation" }], false);
  expect(await held.run()).toEqual({ removed: [], left: [{ id: "subnet-1", address: "a" }] });
  const gone = removal([{ id: "subnet-1", address: "a", held: "InvalidSubnetID.NotFound" }], false);
  expect(await gone.run()).toEqual({ removed: [], left: [] });
  const refused = removal([{ id: "subnet-1", address: "a", held: "UnauthorizedOperation" }], false);
  await expect(refused.run()).rejects.toThrow("UnauthorizedOperation");
});

test.each(["vpce-1", "vpce-svc-1"])(
  "%s that AWS keeps, though it answers, is an error of AWS",
  async (id) => {
    const keeping = (held: string) => removal([{ id, address: "a", held }], false);
    expect((await keeping("ExistingVpcEndpointConnections").run()).left).toHaveLength(1);
    expect(await keeping("InvalidVpcEndpoint.NotFound").run()).toEqual({ removed: [], left: [] });
    const refused = keeping("UnauthorizedOperation").run;
    await expect(askingAws("apply_failed", refused)).rejects.toMatchObject({
      ...{ name: "ProvisionError", code: "auth", detail: "UnauthorizedOperation: no" },
    });
  },
);

test("connections to an endpoint service are rejected once", async () => {
  const connected = ["vpce-a", "vpce-b:pendingAcceptance", "vpce-c:rejected", "vpce-d:deleted"];
  const ec2 = new FakeEc2([{ id: "vpce-svc-1", address: "a", connected }]);
  expect(await rejectConnections(ec2.client, ["vpce-svc-1"])).toBe(2);
  expect(ec2.changes).toEqual(["RejectVpcEndpointConnections vpce-svc-1"]);
  expect(await rejectConnections(new FakeEc2([]).client, ["vpce-svc-1"])).toBe(0);
});
