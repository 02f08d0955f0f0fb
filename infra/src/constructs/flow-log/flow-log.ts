import { FlowLog as VpcFlowLog } from "@cdktn/provider-aws/lib/flow-log/index.js";
import { Construct } from "constructs";

export interface FlowLogProps {
  readonly vpcId: string;
  /** ARN of the log group to write to. */
  readonly logGroupArn: string;
  /** Role that VPC flow logs take to write. */
  readonly roleArn: string;
}

/** Connections that the firewalls rejected, to investigate an attack or a wrong rule. */
export class FlowLog extends Construct {
  constructor(scope: Construct, id: string, props: FlowLogProps) {
    super(scope, id);
    new VpcFlowLog(this, "refused", {
      vpcId: props.vpcId,
      trafficType: "REJECT",
      logDestinationType: "cloud-watch-logs",
      logDestination: props.logGroupArn,
      iamRoleArn: props.roleArn,
      maxAggregationInterval: 600,
    });
  }
}
