import { CloudwatchMetricAlarm } from "@cdktn/provider-aws/lib/cloudwatch-metric-alarm/index.js";
import { Construct } from "constructs";

/** Namespace of what a slot reports about itself each minute. */
export const METRIC_NAMESPACE = "Millrace";

export interface SlotAlarmsProps {
  readonly clusterId: string;
  readonly slot: number;
  readonly groupName: string;
  readonly volumeId: string;
  /** Prefix of the alarms' names. */
  readonly name: string;
  /** SNS topics to notify; none: the alarm is only shown. */
  readonly topicArns: readonly string[];
}

interface Threshold {
  readonly name: string;
  readonly description: string;
  readonly namespace: string;
  readonly metric: string;
  readonly dimensions: Record<string, string>;
  readonly statistic: "Average" | "Maximum" | "Minimum";
  readonly comparison: "GreaterThanThreshold" | "LessThanThreshold";
  readonly threshold: number;
  /** Minutes in a row. */
  readonly minutes: number;
  /** How missing data counts. */
  readonly missing: "breaching" | "notBreaching";
}

function alarm(scope: Construct, prefix: string, topics: readonly string[], t: Threshold): void {
  new CloudwatchMetricAlarm(scope, t.name, {
    alarmName: `${prefix}-${t.name}`,
    alarmDescription: t.description,
    namespace: t.namespace,
    metricName: t.metric,
    dimensions: t.dimensions,
    statistic: t.statistic,
    period: 60,
    evaluationPeriods: t.minutes,
    comparisonOperator: t.comparison,
    threshold: t.threshold,
    treatMissingData: t.missing,
    alarmActions: [...topics],
    okActions: [...topics],
  });
}

/** A failed instance is replaced within this time; a longer absence needs an operator. */
const REPLACEMENT_MINUTES = 10;
/** The log is a file of fixed size, so a fuller volume means that the metadata grows. */
const VOLUME_USED_PERCENT_MAX = 95;
/** Queued requests: more than this for long means that the volume is too slow for its load. */
const VOLUME_QUEUE_MAX = 32;

/** Alarms for a slot that does not serve, or soon will not. */
export class SlotAlarms extends Construct {
  constructor(scope: Construct, id: string, props: SlotAlarmsProps) {
    super(scope, id);
    const own = {
      namespace: METRIC_NAMESPACE,
      dimensions: { Cluster: props.clusterId, Slot: String(props.slot) },
    };
    const add = (threshold: Threshold) => alarm(this, props.name, props.topicArns, threshold);
    add({
      ...own,
      name: "not-ready",
      description: "The broker is not ready. Read its log group.",
      metric: "Ready",
      statistic: "Minimum",
      comparison: "LessThanThreshold",
      threshold: 1,
      minutes: REPLACEMENT_MINUTES,
      missing: "breaching",
    });
    add({
      ...own,
      name: "volume-full",
      description: "The WAL volume is nearly full. Check the bucket, then enlarge the volume.",
      metric: "WalVolumeUsedPercent",
      statistic: "Maximum",
      comparison: "GreaterThanThreshold",
      threshold: VOLUME_USED_PERCENT_MAX,
      minutes: 5,
      missing: "notBreaching",
    });
    add({
      name: "no-instance",
      description: "The slot's Auto Scaling group could not start an instance. See its activities.",
      namespace: "AWS/AutoScaling",
      dimensions: { AutoScalingGroupName: props.groupName },
      metric: "GroupInServiceInstances",
      statistic: "Minimum",
      comparison: "LessThanThreshold",
      threshold: 1,
      minutes: REPLACEMENT_MINUTES,
      missing: "breaching",
    });
    add({
      name: "volume-slow",
      description: "Writes are queued at the WAL volume: raise its IOPS or throughput.",
      namespace: "AWS/EBS",
      dimensions: { VolumeId: props.volumeId },
      metric: "VolumeQueueLength",
      statistic: "Average",
      comparison: "GreaterThanThreshold",
      threshold: VOLUME_QUEUE_MAX,
      minutes: 15,
      missing: "notBreaching",
    });
  }
}

export interface DatabaseAlarmsProps {
  /** Prefix of the alarms' names. */
  readonly name: string;
  readonly identifier: string;
  readonly topicArns: readonly string[];
}

const DATABASE_CPU_PERCENT_MAX = 80;
const DATABASE_FREE_BYTES_MIN = 2 * 2 ** 30;

/** Alarms for a metadata database that soon does not answer in time. */
export class DatabaseAlarms extends Construct {
  constructor(scope: Construct, id: string, props: DatabaseAlarmsProps) {
    super(scope, id);
    const own = {
      namespace: "AWS/RDS",
      dimensions: { DBInstanceIdentifier: props.identifier },
      missing: "notBreaching" as const,
    };
    const add = (threshold: Threshold) => alarm(this, props.name, props.topicArns, threshold);
    add({
      ...own,
      name: "metadata-busy",
      description: "The metadata database's CPU is busy: choose a larger size of the cluster.",
      metric: "CPUUtilization",
      statistic: "Average",
      comparison: "GreaterThanThreshold",
      threshold: DATABASE_CPU_PERCENT_MAX,
      minutes: 15,
    });
    add({
      ...own,
      name: "metadata-full",
      description: "The metadata database's storage is nearly full and has reached its maximum.",
      metric: "FreeStorageSpace",
      statistic: "Minimum",
      comparison: "LessThanThreshold",
      threshold: DATABASE_FREE_BYTES_MIN,
      minutes: 5,
    });
  }
}

export interface EndpointAlarmProps {
  readonly name: string;
  /** The last part of the ARNs, as CloudWatch's dimensions have them. */
  readonly balancerSuffix: string;
  readonly targetGroupSuffix: string;
  readonly topicArns: readonly string[];
}

/** Alarms for clients that may not find a broker. */
export class EndpointAlarm extends Construct {
  constructor(scope: Construct, id: string, props: EndpointAlarmProps) {
    super(scope, id);
    alarm(this, props.name, props.topicArns, {
      name: "unhealthy-targets",
      description: "The load balancer sees a broker that does not serve.",
      namespace: "AWS/NetworkELB",
      metric: "UnHealthyHostCount",
      dimensions: {
        LoadBalancer: props.balancerSuffix,
        TargetGroup: props.targetGroupSuffix,
      },
      statistic: "Maximum",
      comparison: "GreaterThanThreshold",
      threshold: 0,
      minutes: REPLACEMENT_MINUTES,
      missing: "notBreaching",
    });
  }
}
