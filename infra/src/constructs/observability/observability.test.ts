import { expect, test } from "vitest";
import { resource, snapshotText, stackOf } from "../../../test/stack-fixture.ts";
import { EndpointAlarm, SlotAlarms } from "./alarms.ts";
import { LogGroup } from "./log-group.ts";

function observed(topicArns: string[] = ["arn:topic"]) {
  return stackOf((scope) => {
    new LogGroup(scope, "logs", { name: "/millrace/test", kmsKeyArn: "arn:key" });
    new SlotAlarms(scope, "alarms-2", {
      clusterId: "clu_1",
      slot: 2,
      groupName: "test-b2",
      volumeId: "vol-1",
      name: "test-b2",
      topicArns,
    });
    new EndpointAlarm(scope, "endpoint-alarm", {
      name: "test",
      balancerSuffix: "net/test/1",
      targetGroupSuffix: "targetgroup/test/1",
      topicArns,
    });
  });
}

test("logs and alarms are what the snapshot shows", async () => {
  await expect(snapshotText(observed())).toMatchFileSnapshot("observability.snap");
});

test("a slot that says nothing is as bad as one that is not ready", () => {
  const silent = resource(observed(), "aws_cloudwatch_metric_alarm", "alarms-2_not-ready");
  expect(silent).toMatchObject({
    namespace: "Millrace",
    metric_name: "Ready",
    dimensions: { Cluster: "clu_1", Slot: "2" },
    treat_missing_data: "breaching",
  });
});

test("alarms tell the topic of their begin and of their end, where there is one", () => {
  for (const topics of [["arn:topic"], []])
    for (const alarm of Object.values(observed(topics).resource.aws_cloudwatch_metric_alarm ?? {}))
      expect([alarm.alarm_actions ?? [], alarm.ok_actions ?? []]).toEqual([topics, topics]);
});

test("logs are encrypted, and end", () => {
  expect(resource(observed(), "aws_cloudwatch_log_group")).toMatchObject({
    kms_key_id: "arn:key",
    retention_in_days: 30,
  });
});
