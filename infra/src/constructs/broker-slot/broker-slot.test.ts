import { expect, test } from "vitest";
import { resource, snapshotText, stackOf } from "../../../test/stack-fixture.ts";
import { SlotRole } from "../identity/slot-role.ts";
import { BrokerSlot } from "./broker-slot.ts";

function slot(running = true) {
  return stackOf((scope) => {
    new BrokerSlot(scope, "slot-0", {
      name: "test-b0",
      instanceType: "m7g.large",
      amiId: "ami-0123456789abcdef0",
      subnetId: "subnet-1",
      securityGroupId: "sg-1",
      instanceProfileArn: "arn:aws:iam::111122223333:instance-profile/test",
      targetGroupArns: ["arn:targets"],
      userData: "#!/bin/bash\necho hello\n",
      tags: { "millrace:slot": "0" },
      running,
      needs: [
        new SlotRole(scope, "role", {
          name: "test-b0",
          permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/boundary",
          statements: [],
        }),
      ],
    });
  });
}

test("a slot is what the snapshot shows", async () => {
  await expect(snapshotText(slot())).toMatchFileSnapshot("broker-slot.snap");
});

test("it has exactly one instance, or none", () => {
  const sizes = (running: boolean) => {
    const group = resource(slot(running), "aws_autoscaling_group");
    return [group.min_size, group.desired_capacity, group.max_size];
  };
  expect(sizes(true)).toEqual([1, 1, 1]);
  expect(sizes(false)).toEqual([0, 0, 0]);
});

test("no instance is there before what it needs, or after it", () => {
  expect(resource(slot(), "aws_autoscaling_group").depends_on).toEqual([
    "aws_iam_role.role_role",
    "aws_iam_role_policy.role_policy",
    "aws_iam_instance_profile.role_profile",
  ]);
});

test("an instance answers metadata with a session's token only, and to nobody behind it", () => {
  expect(resource(slot(), "aws_launch_template").metadata_options).toMatchObject({
    http_tokens: "required",
    http_put_response_hop_limit: 1,
  });
});

test("an instance of the same template version has the same image, whenever it is launched", () => {
  expect(resource(slot(), "aws_launch_template").image_id).toBe("ami-0123456789abcdef0");
});

test("the group follows the newest version of its template", () => {
  const { launch_template } = resource(slot(), "aws_autoscaling_group");
  expect(JSON.stringify(launch_template)).toContain(".latest_version");
});

test("the script reaches the instance as it was written", () => {
  const { user_data } = resource(slot(), "aws_launch_template");
  expect(Buffer.from(String(user_data), "base64").toString()).toBe("#!/bin/bash\necho hello\n");
});
