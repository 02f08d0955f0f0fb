import { expect, test } from "vitest";
import { FakeEc2 } from "../../test/fake-ec2.ts";
import { existingOfEc2 } from "./ec2-existence.ts";

const LOOKED_AT = [
  ...["vpc-0a", "subnet-0a", "rtb-0a", "sg-0a", "sgr-0a", "vol-0a", "vpce-0a", "vpce-svc-0a"],
];
/** One id of each kind that tags are found on. */
const IDS = [...LOOKED_AT, "igw-0a", "fl-0a", "lt-0a"];

function ec2With(ids: readonly string[]) {
  return new FakeEc2(ids.map((id) => ({ id, address: "" }))).client;
}

test("each kind of id that exists is found to exist", async () => {
  expect([...(await existingOfEc2(ec2With(IDS), IDS))].sort()).toEqual([...IDS].sort());
});

test.each(LOOKED_AT)("%s is gone where AWS does not know it", async (id) => {
  const others = IDS.filter((each) => each !== id);
  const existing = await existingOfEc2(ec2With(others), IDS);
  expect([...existing].sort()).toEqual([...others].sort());
});
