/** One violation in a stack or a plan. Source: the rules of this folder. */
export interface PolicyFinding {
  /** The rule's name, stable: `encryption-at-rest`, `open-ingress`, … */
  readonly rule: string;
  /** An `error` refuses the change; a `warning` is shown with it. */
  readonly severity: "error" | "warning";
  /** Terraform's address of the resource, such as `aws_s3_bucket.data`. */
  readonly address: string;
  /** What is wrong and what to do. */
  readonly message: string;
}

/** The context of a check. */
export interface PolicyContext {
  /** Whose stack it is: the tags, the network and the deletion rules differ. */
  readonly kind: "cluster" | "control-plane";
  /** The tenant asked to destroy data for good: volumes and buckets may go. */
  readonly purge?: boolean;
  /**
   * Addresses of resources with data that a change may delete, because nothing of it will be needed: the log volumes of brokers
   * that leave their cluster before.
   */
  readonly leaving?: readonly string[];
  /**
   * Addresses of security groups and of ingress rules that were asked to be open to the world, such
   * as the one of a public listener. Nothing else may have `0.0.0.0/0` or `::/0`.
   */
  readonly publicIngress?: readonly string[];
}
