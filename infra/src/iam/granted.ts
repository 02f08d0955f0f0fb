/** What the table of grants says of a service: its actions, and the ARNs of what it names. */
import { ANY_CLUSTER_PREFIX } from "./document.ts";
import { CLUSTER_GRANTS, type NamedScope } from "./grants.ts";

/** ARNs of named resources of clusters, for services without conditions on tags. */
export function namedArns(scope: NamedScope, accountId: string): string[] {
  const prefix = ANY_CLUSTER_PREFIX;
  switch (scope) {
    case "alarm":
      return [`arn:aws:cloudwatch:*:${accountId}:alarm:${prefix}-*`];
    case "autoscaling":
      return [
        `arn:aws:autoscaling:*:${accountId}:autoScalingGroup:*:autoScalingGroupName/${prefix}-*`,
      ];
    case "bucket":
      return [`arn:aws:s3:::${prefix}-data-*`];
    case "database":
      return [
        ...["db", "subgrp", "pg", "snapshot"].map(
          (kind) => `arn:aws:rds:*:${accountId}:${kind}:${prefix}*`,
        ),
        // PostgreSQL's own options, which a database cannot be without.
        `arn:aws:rds:*:${accountId}:og:default:*`,
      ];
    case "log-group":
      return [`arn:aws:logs:*:${accountId}:log-group:/millrace/*`];
    case "role":
      return [
        `arn:aws:iam::${accountId}:role/${prefix}-*`,
        `arn:aws:iam::${accountId}:instance-profile/${prefix}-*`,
      ];
    case "secret":
      return [`arn:aws:secretsmanager:*:${accountId}:secret:${prefix}/*`];
    case "zone":
      return ["arn:aws:route53:::hostedzone/*"];
  }
}

/** Actions of one service in the table, in order and once each. */
export function actions(service: string, kind: "read" | "create" | "change"): string[] {
  const all = Object.values(CLUSTER_GRANTS).flatMap((grants) => grants[kind]);
  return [...new Set(all.filter((action) => action.startsWith(`${service}:`)))].sort();
}
