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

/** The tag that says that the product made it, and its value. */
export const MANAGED_TAG = "millrace:managed-by";
export const MANAGED = "millrace";
export const CLUSTER_TAG = "millrace:cluster";

/**
 * A cluster's prefix as IAM sees any of them: `millrace-` and ten characters of hash. What the
 * control plane has for itself is named `millrace-control-plane…` or stands under the path
 * `/millrace/`, so that no pattern of a cluster's parts reaches it.
 */
export const ANY_CLUSTER_PREFIX = "millrace-??????????";
