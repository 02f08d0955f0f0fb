import { IamInstanceProfile } from "@cdktn/provider-aws/lib/iam-instance-profile/index.js";
import { IamRole } from "@cdktn/provider-aws/lib/iam-role/index.js";
import { IamRolePolicy } from "@cdktn/provider-aws/lib/iam-role-policy/index.js";
import { Construct } from "constructs";
import { policyText, type Statement } from "./statement.ts";

export interface SlotRoleProps {
  /** Name of the role and of its instance profile; at most 64 characters. */
  readonly name: string;
  readonly permissionsBoundaryArn: string;
  readonly statements: readonly Statement[];
}

/** What an instance of one slot may do: a role of its own, inside the installation's boundary. */
export class SlotRole extends Construct {
  readonly instanceProfileArn: string;

  constructor(scope: Construct, id: string, props: SlotRoleProps) {
    super(scope, id);
    const role = new IamRole(this, "role", {
      name: props.name,
      permissionsBoundary: props.permissionsBoundaryArn,
      assumeRolePolicy: JSON.stringify({
        Version: "2012-10-17",
        Statement: [
          {
            Effect: "Allow",
            Principal: { Service: "ec2.amazonaws.com" },
            Action: "sts:AssumeRole",
          },
        ],
      }),
    });
    new IamRolePolicy(this, "policy", {
      name: "slot",
      role: role.id,
      policy: policyText(props.statements),
    });
    const profile = new IamInstanceProfile(this, "profile", { name: props.name, role: role.name });
    this.instanceProfileArn = profile.arn;
  }
}
