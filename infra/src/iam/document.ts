/** An IAM policy document. */
export interface PolicyDocument {
  readonly Version: "2012-10-17";
  readonly Statement: readonly Statement[];
}

type Conditions = Readonly<Record<string, Readonly<Record<string, string | readonly string[]>>>>;

export interface Statement {
  readonly Sid?: string;
  readonly Effect: "Allow" | "Deny";
  readonly Principal?: "*" | Readonly<Record<string, string | readonly string[]>>;
  readonly Action?: string | readonly string[];
  readonly NotAction?: readonly string[];
  readonly Resource?: string | readonly string[];
  readonly NotResource?: readonly string[];
  readonly Condition?: Conditions;
}

export function policyDocument(...statements: Statement[]): PolicyDocument {
  return { Version: "2012-10-17", Statement: statements };
}

/** The tag on everything that the product creates, and its value on clusters' resources. */
export const MANAGED_TAG = "millrace:managed-by";
export const MANAGED = "millrace";
/**
 * Its value on the control plane's resources. It differs because the provisioner's role may change everything
 * with the clusters' value, but not the installation's keys and network.
 */
export const MANAGED_CONTROL_PLANE = "millrace-control-plane";
/** A tag of only the control plane's resources. */
export const INSTALLATION_TAG = "millrace:installation";
export const CLUSTER_TAG = "millrace:cluster";
export const ENVIRONMENT_TAG = "millrace:environment";
/** The owner: an organization's id, on clusters' resources and on networks that the organization provides. */
export const TENANT_TAG = "millrace:tenant";

/**
 * A cluster's prefix as IAM sees any of them: `millrace-` and ten characters of hash. The
 * control plane's own resources begin with `mr-` or are under the path `/millrace/`, so that no
 * pattern for a cluster matches them; resources without names are identified by tags.
 */
export const ANY_CLUSTER_PREFIX = "millrace-??????????";
