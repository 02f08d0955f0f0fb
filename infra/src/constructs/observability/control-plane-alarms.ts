import { CloudwatchMetricAlarm } from "@cdktn/provider-aws/lib/cloudwatch-metric-alarm/index.js";
import { Construct } from "constructs";

export interface ControlPlaneAlarmsProps {
  /** Prefix of the alarms' names. */
  readonly prefix: string;
  readonly databaseIdentifier: string;
  readonly balancerSuffix: string;
  readonly ecsCluster: string;
  readonly services: readonly string[];
  readonly topicArns: readonly string[];
}

const PERIOD_SECONDS = 60;
const DATABASE_CPU_PERCENT_MAX = 80;
const DATABASE_FREE_BYTES_MIN = 5 * 2 ** 30;
/** A handful of errors in a minute is a deployment; more is an outage. */
const SERVER_ERRORS_MAX = 10;

/** Alarms for a console, API or worker that does not serve, or soon will not. */
export class ControlPlaneAlarms extends Construct {
  constructor(scope: Construct, id: string, props: ControlPlaneAlarmsProps) {
    super(scope, id);
    const add = (
      name: string,
      description: string,
      metric: {
        namespace: string;
        metricName: string;
        dimensions: Record<string, string>;
        statistic: "Average" | "Minimum" | "Sum";
      },
      bound: { above?: number; below?: number; minutes: number },
      missing: "breaching" | "notBreaching",
    ) =>
      new CloudwatchMetricAlarm(this, name, {
        ...metric,
        alarmName: `${props.prefix}-${name}`,
        alarmDescription: description,
        period: PERIOD_SECONDS,
        evaluationPeriods: bound.minutes,
        comparisonOperator:
          bound.above === undefined ? "LessThanThreshold" : "GreaterThanThreshold",
        threshold: bound.above ?? bound.below ?? 0,
        treatMissingData: missing,
        alarmActions: [...props.topicArns],
        okActions: [...props.topicArns],
      });
    const database = (metricName: string, statistic: "Average" | "Minimum") => ({
      namespace: "AWS/RDS",
      metricName,
      dimensions: { DBInstanceIdentifier: props.databaseIdentifier },
      statistic,
    });
    add(
      "database-busy",
      "PostgreSQL's CPU is busy: choose a larger class.",
      database("CPUUtilization", "Average"),
      { above: DATABASE_CPU_PERCENT_MAX, minutes: 15 },
      "notBreaching",
    );
    add(
      "database-full",
      "PostgreSQL's storage is nearly full and has reached its maximum.",
      database("FreeStorageSpace", "Minimum"),
      { below: DATABASE_FREE_BYTES_MIN, minutes: 5 },
      "notBreaching",
    );
    add(
      "server-errors",
      "Console or API answer with errors. Read their log group.",
      {
        namespace: "AWS/ApplicationELB",
        metricName: "HTTPCode_Target_5XX_Count",
        dimensions: { LoadBalancer: props.balancerSuffix },
        statistic: "Sum",
      },
      { above: SERVER_ERRORS_MAX, minutes: 5 },
      "notBreaching",
    );
    for (const service of props.services) {
      add(
        `${service}-down`,
        `No task of the ${service} is running. See the service's events.`,
        {
          namespace: "ECS/ContainerInsights",
          metricName: "RunningTaskCount",
          dimensions: { ClusterName: props.ecsCluster, ServiceName: service },
          statistic: "Minimum",
        },
        { below: 1, minutes: 5 },
        "breaching",
      );
    }
  }
}
