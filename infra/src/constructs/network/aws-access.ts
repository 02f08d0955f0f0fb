import { VpcEndpoint } from "@cdktn/provider-aws/lib/vpc-endpoint/index.js";
import { Construct } from "constructs";
import { policyText, type Statement } from "../identity/statement.ts";

export interface AwsAccessProps {
  /** Begins the `Name` tags. */
  readonly prefix: string;
  readonly accountId: string;
  readonly region: string;
  readonly vpcId: string;
  readonly routeTableId: string;
  /** Subnets that get an address of each interface endpoint: those with a slot. */
  readonly subnetIds: readonly string[];
  readonly securityGroupId: string;
  /** Allowed calls per interface endpoint; the keys are the services. */
  readonly actions: Readonly<Record<string, readonly string[]>>;
  /** Allowed calls through S3's gateway endpoint. */
  readonly s3: readonly Statement[];
}

/**
 * Endpoints for the AWS services that brokers call from a network without internet access. Each allows only the
 * calls that are needed and, except S3's, only identities of the account.
 */
export class AwsAccess extends Construct {
  /** Prefix list of S3's addresses, for security groups. */
  readonly s3PrefixListId: string;

  constructor(scope: Construct, id: string, props: AwsAccessProps) {
    super(scope, id);
    const s3 = new VpcEndpoint(this, "s3", {
      vpcId: props.vpcId,
      vpcEndpointType: "Gateway",
      serviceName: `com.amazonaws.${props.region}.s3`,
      routeTableIds: [props.routeTableId],
      policy: policyText(props.s3),
      tags: { Name: `${props.prefix}-s3` },
    });
    this.s3PrefixListId = s3.prefixListId;
    for (const [service, actions] of Object.entries(props.actions)) {
      new VpcEndpoint(this, service, {
        vpcId: props.vpcId,
        vpcEndpointType: "Interface",
        serviceName: `com.amazonaws.${props.region}.${service}`,
        privateDnsEnabled: true,
        subnetIds: [...props.subnetIds],
        securityGroupIds: [props.securityGroupId],
        policy: policyText([
          {
            Sid: "Account",
            Effect: "Allow",
            Principal: "*",
            Action: actions,
            Resource: ["*"],
            Condition: { StringEquals: { "aws:PrincipalAccount": props.accountId } },
          },
        ]),
        tags: { Name: `${props.prefix}-${service}` },
      });
    }
  }
}
