import { describe, expect, it } from "vitest";
import { groupsOf, losesData, type PlannedChange, summaryText } from "./plan-groups.ts";

function change(type: string, action: PlannedChange["action"], name = "a"): PlannedChange {
  return { address: `${type}.${name}`, type, action, attributes: [] };
}

const NOTHING = { create: 0, update: 0, replace: 0, delete: 0, import: 0 };

describe("a plan", () => {
  it.each([
    ["aws_ebs_volume", "Write-ahead log volumes"],
    ["aws_s3_bucket_public_access_block", "Data bucket"],
    ["aws_autoscaling_group", "Brokers"],
    ["process", "Brokers"],
    ["aws_lb_listener", "Endpoint"],
    ["aws_route53_record", "Endpoint"],
    ["aws_vpc_endpoint_service", "Endpoint"],
    ["aws_vpc_endpoint", "Network"],
    ["aws_route_table_association", "Network"],
    ["aws_vpc_security_group_ingress_rule", "Network"],
    ["aws_iam_role_policy", "Identity"],
    ["aws_secretsmanager_secret_version", "Keys and secrets"],
    ["aws_cloudwatch_metric_alarm", "Logs and alarms"],
    ["folder", "Folder and files"],
    ["aws_something_new", "Other"],
  ])("has %s under %s", (type, title) => {
    expect(groupsOf([change(type, "create")])).toMatchObject([{ title }]);
  });

  it("shows what matters most first: data before doors, losses before gains", () => {
    const groups = groupsOf([
      change("aws_iam_role", "create"),
      change("aws_ebs_volume", "create", "slot_10"),
      change("aws_ebs_volume", "create", "slot_9"),
      change("aws_ebs_volume", "update", "slot_2"),
      change("aws_ebs_volume", "delete", "slot_3"),
    ]);
    expect(groups.map(({ title }) => title)).toEqual(["Write-ahead log volumes", "Identity"]);
    expect(groups[0]?.changes.map(({ address }) => address)).toEqual([
      "aws_ebs_volume.slot_3",
      "aws_ebs_volume.slot_2",
      "aws_ebs_volume.slot_9",
      "aws_ebs_volume.slot_10",
    ]);
  });

  it("sums itself up, without what does not occur", () => {
    expect(summaryText({ ...NOTHING, create: 61 })).toBe("61 to create");
    expect(summaryText({ ...NOTHING, update: 1, replace: 2, import: 1 })).toBe(
      "1 to change, 2 to replace, 1 to import",
    );
    expect(summaryText(NOTHING)).toBe("No changes");
  });

  it("loses data with a volume, a bucket or a folder, not with what stands around them", () => {
    expect(losesData([change("aws_ebs_volume", "replace")])).toBe(true);
    expect(losesData([change("aws_s3_bucket", "delete")])).toBe(true);
    expect(losesData([change("folder", "delete")])).toBe(true);
    expect(losesData([change("aws_ebs_volume", "update")])).toBe(false);
    expect(losesData([change("aws_s3_bucket_policy", "delete")])).toBe(false);
  });
});
