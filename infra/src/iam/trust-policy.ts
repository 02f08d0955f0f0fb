import { type PolicyDocument, policyDocument } from "./document.ts";

export interface TrustProps {
  /** The role of the control plane's worker, which alone may assume the provisioner's role. */
  readonly principalArns: readonly string[];
  /**
   * Given to the tenant by Millrace, different for each organization: otherwise a tenant could
   * make Millrace work in a foreign account by naming that account's role. `*` and `?` stand for
   * characters where the account is the installation's own and takes every organization.
   */
  readonly externalId: string;
}

/** Who may assume the provisioner's role in a tenant's account. */
export function trustPolicy({ principalArns, externalId }: TrustProps): PolicyDocument {
  return policyDocument({
    Effect: "Allow",
    Principal: { AWS: principalArns },
    Action: "sts:AssumeRole",
    Condition: {
      [/[*?]/.test(externalId) ? "StringLike" : "StringEquals"]: { "sts:ExternalId": externalId },
    },
  });
}
