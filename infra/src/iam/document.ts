/** A policy as IAM reads it. */
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

/** The tag that says that the product made it, and its value on what belongs to clusters. */
export const MANAGED_TAG = "millrace:managed-by";
export const MANAGED = "millrace";
/**
 * Its value on what the control plane consists of. Another one, because the provisioner's role may
 * change whatever has the clusters' value: the installation's keys and network are not among it.
 */
export const MANAGED_CONTROL_PLANE = "millrace-control-plane";
/** Only what the control plane consists of has it. */
export const INSTALLATION_TAG = "millrace:installation";
export const CLUSTER_TAG = "millrace:cluster";
export const ENVIRONMENT_TAG = "millrace:environment";
/** Whose it is: an organization's id, on what clusters consist of and on networks that it brings. */
export const TENANT_TAG = "millrace:tenant";

/**
 * A cluster's prefix as IAM sees any of them: `millrace-` and ten characters of hash. The
 * control plane's own resources begin with `mr-` or are under the path `/millrace/`, so that no
 * pattern for a cluster matches them; resources without names are identified by tags.
 */
export const ANY_CLUSTER_PREFIX = "millrace-??????????";
