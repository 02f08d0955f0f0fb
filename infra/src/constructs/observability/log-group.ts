import { CloudwatchLogGroup } from "@cdktn/provider-aws/lib/cloudwatch-log-group/index.js";
import { Construct } from "constructs";

export interface LogGroupProps {
  readonly name: string;
  readonly kmsKeyArn: string;
}

/** Long enough to look into what a customer reports late. */
const RETENTION_DAYS = 30;

/** What the brokers and their machines log. */
export class LogGroup extends Construct {
  constructor(scope: Construct, id: string, props: LogGroupProps) {
    super(scope, id);
    new CloudwatchLogGroup(this, "group", {
      name: props.name,
      retentionInDays: RETENTION_DAYS,
      kmsKeyId: props.kmsKeyArn,
    });
  }
}
