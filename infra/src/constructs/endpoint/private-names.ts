import { Route53Record } from "@cdktn/provider-aws/lib/route53-record/index.js";
import { Route53Zone } from "@cdktn/provider-aws/lib/route53-zone/index.js";
import { Construct } from "constructs";

export interface PrivateNamesProps {
  readonly zone: string;
  readonly comment: string;
  readonly vpcId: string;
  /** The load balancer or endpoint that the names lead to: its own name, and the zone of that. */
  readonly target: { readonly dnsName: string; readonly zoneId: string };
  /** Whole names inside the zone, by the id of their record. */
  readonly names: Readonly<Record<string, string>>;
}

/**
 * Names that resolve inside the network: known before the target exists and the same after it was
 * replaced, so that brokers advertise them and clients keep them.
 */
export class PrivateNames extends Construct {
  constructor(scope: Construct, id: string, props: PrivateNamesProps) {
    super(scope, id);
    const zone = new Route53Zone(this, "zone", {
      name: props.zone,
      comment: props.comment,
      vpc: [{ vpcId: props.vpcId }],
    });
    for (const [record, name] of Object.entries(props.names)) {
      new Route53Record(this, record, {
        zoneId: zone.zoneId,
        name,
        type: "A",
        // The zone belongs to the cluster: an existing record is from a run that lost the response.
        allowOverwrite: true,
        alias: {
          name: props.target.dnsName,
          zoneId: props.target.zoneId,
          evaluateTargetHealth: false,
        },
      });
    }
  }
}
