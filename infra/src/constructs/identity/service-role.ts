import { IamRole } from "@cdktn/provider-aws/lib/iam-role/index.js";
import { IamRolePolicy } from "@cdktn/provider-aws/lib/iam-role-policy/index.js";
import { Construct } from "constructs";
import { solePolicies } from "./sole-policies.ts";
import { policyText, type Statement } from "./statement.ts";

export interface ServiceRoleProps {
  readonly name: string;
  /** `ecs-tasks.amazonaws.com`. */
  readonly service: string;
  readonly accountId: string;
  readonly permissionsBoundaryArn: string;
  readonly statements: readonly Statement[];
}

/** Apart from the roles of clusters, so that the provisioner's policies do not reach these. */
const PATH = "/millrace/";

/** What one program of the control plane may do: a role of its own, inside the boundary. */
export class ServiceRole extends Construct {
  readonly arn: string;

  constructor(scope: Construct, id: string, props: ServiceRoleProps) {
    super(scope, id);
    const role = new IamRole(this, "role", {
      name: props.name,
      path: PATH,
      permissionsBoundary: props.permissionsBoundaryArn,
      assumeRolePolicy: JSON.stringify({
        Version: "2012-10-17",
        Statement: [
          {
            Effect: "Allow",
            Principal: { Service: props.service },
            Action: "sts:AssumeRole",
            // Only in the name of this account: no other can have the service act for it.
            Condition: { StringEquals: { "aws:SourceAccount": props.accountId } },
          },
        ],
      }),
    });
    const own = props.statements.length === 0 ? [] : [this.#policy(role, props.statements)];
    solePolicies(this, { role, own });
    this.arn = role.arn;
  }

  #policy(role: IamRole, statements: readonly Statement[]): IamRolePolicy {
    return new IamRolePolicy(this, "policy", {
      name: "service",
      role: role.id,
      policy: policyText(statements),
    });
  }
}
