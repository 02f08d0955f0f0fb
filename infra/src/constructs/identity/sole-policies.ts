import type { IamRole } from "@cdktn/provider-aws/lib/iam-role/index.js";
import { IamRolePoliciesExclusive } from "@cdktn/provider-aws/lib/iam-role-policies-exclusive/index.js";
import type { IamRolePolicy } from "@cdktn/provider-aws/lib/iam-role-policy/index.js";
import type { IamRolePolicyAttachment } from "@cdktn/provider-aws/lib/iam-role-policy-attachment/index.js";
import { IamRolePolicyAttachmentsExclusive } from "@cdktn/provider-aws/lib/iam-role-policy-attachments-exclusive/index.js";
import type { Construct } from "constructs";

export interface SolePoliciesProps {
  readonly role: IamRole;
  readonly own?: readonly IamRolePolicy[];
  readonly attached?: readonly IamRolePolicyAttachment[];
}

/**
 * Makes each apply remove foreign policies from the role: Terraform itself only checks policies
 * that it created. These resources have no effect when the role is destroyed.
 */
export function solePolicies(scope: Construct, props: SolePoliciesProps): void {
  const { role, own = [], attached = [] } = props;
  new IamRolePoliciesExclusive(scope, "policies", {
    roleName: role.name,
    policyNames: own.map((policy) => policy.name),
  });
  new IamRolePolicyAttachmentsExclusive(scope, "attachments", {
    roleName: role.name,
    policyArns: attached.map((attachment) => attachment.policyArn),
  });
}
