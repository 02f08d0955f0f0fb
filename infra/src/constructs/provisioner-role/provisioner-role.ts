import { IamPolicy } from "@cdktn/provider-aws/lib/iam-policy/index.js";
import { IamRole } from "@cdktn/provider-aws/lib/iam-role/index.js";
import { IamRolePolicyAttachment } from "@cdktn/provider-aws/lib/iam-role-policy-attachment/index.js";
import { Construct } from "constructs";
import { provisionerBoundary, provisionerPolicies } from "../../iam/provisioner-policies.ts";
import { trustPolicy } from "../../iam/trust-policy.ts";
import { solePolicies } from "../identity/sole-policies.ts";

export interface ProvisionerRoleProps {
  /** Path and name: `millrace/provisioner`. */
  readonly role: string;
  /** Begins the policies' names. */
  readonly prefix: string;
  readonly accountId: string;
  /** The boundary that every role of a cluster must have. */
  readonly permissionsBoundaryArn: string;
  /** Domain of the gateways' names in clusters' networks. */
  readonly linkDomain: string;
  /** The roles that take this one. */
  readonly principalArns: readonly string[];
  readonly externalId: string;
}

const SESSION_SECONDS_MAX = 3_600;

/** The role under which Terraform makes clusters in this account. */
export class ProvisionerRole extends Construct {
  constructor(scope: Construct, id: string, props: ProvisionerRoleProps) {
    super(scope, id);
    const { prefix, accountId, permissionsBoundaryArn, linkDomain } = props;
    const limits = { accountId, permissionsBoundaryArn, linkDomain };
    const [folder, name] = props.role.split("/") as [string, string];
    const path = `/${folder}/`;
    const policy = (suffix: string, description: string, document: unknown) =>
      new IamPolicy(this, suffix, {
        name: `${prefix}-provisioner-${suffix}`,
        path,
        description,
        policy: JSON.stringify(document),
      });
    const boundary = policy(
      "boundary",
      "The most that the provisioner can do",
      provisionerBoundary(limits),
    );
    const role = new IamRole(this, "role", {
      name,
      path,
      description: "Makes, changes and destroys clusters of Millrace",
      maxSessionDuration: SESSION_SECONDS_MAX,
      permissionsBoundary: boundary.arn,
      assumeRolePolicy: JSON.stringify(
        trustPolicy({ principalArns: props.principalArns, externalId: props.externalId }),
      ),
    });
    const policies = provisionerPolicies(limits);
    const attached = policies.map(({ name: concern, document }) => {
      const part = policy(concern, `What the provisioner does: ${concern}`, document);
      return new IamRolePolicyAttachment(this, `${concern}-attached`, {
        role: role.name,
        policyArn: part.arn,
      });
    });
    solePolicies(this, { role, attached });
  }
}
