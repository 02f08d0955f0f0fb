import { ResourceGroupsTaggingAPIClient } from "@aws-sdk/client-resource-groups-tagging-api";
import { expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import { FakeEc2, type FakeResource } from "../../test/fake-ec2.ts";
import type { AwsClients } from "./aws-account.ts";
import { AwsInventory, type RecordedResource, type WantedResource } from "./inventory.ts";

function wanted(address: string): WantedResource {
  return { address, type: address.split(".")[0] ?? "", attributes: {} };
}

async function survey(
  resources: readonly FakeResource[],
  whole: readonly string[],
  recorded: readonly RecordedResource[] = [],
) {
  const ec2 = new FakeEc2(resources).client;
  const tagging = answering(ResourceGroupsTaggingAPIClient, () => ({}));
  const inventory = new AwsInventory({ ec2, tagging } as unknown as AwsClients, "clu_a");
  const { located, strays } = await inventory.survey(whole.map(wanted), recorded);
  return { located: [...located], strays: strays.map(({ id }) => id) };
}

const VOLUME = "aws_ebs_volume.slot-0";
const RULE = "aws_vpc_security_group_ingress_rule.kafka";

test("a resource in the state is neither found again nor a stray", async () => {
  const recorded = [{ address: VOLUME, id: "vol-1" }];
  expect(await survey([{ id: "vol-1", address: VOLUME }], [VOLUME], recorded)).toEqual({
    located: [],
    strays: [],
  });
});

test("a second volume of an address in the state is a stray", async () => {
  const two = ["vol-1", "vol-2"].map((id) => ({ id, address: VOLUME }));
  const seen = await survey(two, [VOLUME], [{ address: VOLUME, id: "vol-1" }]);
  expect(seen).toEqual({ located: [], strays: ["vol-2"] });
});

test("during a replacement both resources of an address are in the state", async () => {
  const two = ["subnet-1", "subnet-2"].map((id) => ({ id, address: "aws_subnet.a" }));
  const recorded = two.map(({ id, address }) => ({ id, address }));
  expect((await survey(two, ["aws_subnet.a"], recorded)).strays).toEqual([]);
});

test("of two volumes missing from the state the attached one is the cluster's, else the oldest", async () => {
  const one = { id: "vol-1", address: VOLUME, state: "available", made: new Date(2) } as const;
  const two = { id: "vol-2", address: VOLUME, state: "available", made: new Date(1) } as const;
  const unused = { located: [[VOLUME, "vol-2"]], strays: ["vol-1"] };
  expect(await survey([one, two], [VOLUME])).toEqual(unused);
  const used = { located: [[VOLUME, "vol-1"]], strays: ["vol-2"] };
  expect(await survey([{ ...one, state: "in-use" }, two], [VOLUME])).toEqual(used);
});

test("a rule that is neither in the stack nor in the state is a stray", async () => {
  const rule = { id: "sgr-1", address: RULE };
  const group = { id: "sg-1", address: "aws_security_group.g" };
  const recorded = [{ address: group.address, id: group.id }];
  expect((await survey([rule, group], [group.address], recorded)).strays).toEqual(["sgr-1"]);
  // Terraform itself removes it where it is on record.
  const both = [...recorded, { address: RULE, id: "sgr-1" }];
  expect((await survey([rule, group], [group.address], both)).strays).toEqual([]);
});

test("a kind whose existence is not checked has no strays, because tags outlive resources", async () => {
  expect((await survey([{ id: "lt-1", address: "aws_launch_template.gone" }], [])).strays).toEqual(
    [],
  );
});
