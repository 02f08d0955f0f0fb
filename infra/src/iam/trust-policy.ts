import { type PolicyDocument, policyDocument } from "./document.ts";

export interface TrustProps {
  /** The role of the control plane's worker, the only one that may assume the provisioner's role. */
  readonly principalArns: readonly string[];
  /**
   * Assigned by Millrace, different for each organization: otherwise a tenant could make Millrace work in
   * another tenant's account by naming that account's role. `*` and `?` are wildcards, for the installation's own
   * account, which accepts every organization.
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
