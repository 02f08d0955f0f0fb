/**
 * Types of the AWS provider (5.100) that the stacks use and that have no `tags`. Everything else must
 * have them, so a type that is not listed here requires tags.
 */
const UNTAGGABLE = new Set([
  "aws_appautoscaling_policy",
  "aws_autoscaling_attachment",
  "aws_autoscaling_group", // has `tag` blocks, checked on their own
  "aws_autoscaling_lifecycle_hook",
  "aws_ecr_lifecycle_policy",
  "aws_ecs_cluster_capacity_providers",
  "aws_efs_backup_policy",
  "aws_efs_file_system_policy",
  "aws_efs_mount_target",
  "aws_iam_role_policies_exclusive",
  "aws_iam_role_policy",
  "aws_iam_role_policy_attachment",
  "aws_iam_role_policy_attachments_exclusive",
  "aws_kms_alias",
  "aws_kms_key_policy",
  "aws_lb_listener_certificate",
  "aws_lb_target_group_attachment",
  "aws_route",
  "aws_route53_record",
  "aws_route_table_association",
  "aws_s3_bucket_acl",
  "aws_s3_bucket_lifecycle_configuration",
  "aws_s3_bucket_logging",
  "aws_s3_bucket_ownership_controls",
  "aws_s3_bucket_policy",
  "aws_s3_bucket_public_access_block",
  "aws_s3_bucket_server_side_encryption_configuration",
  "aws_s3_bucket_versioning",
  "aws_secretsmanager_secret_policy",
  "aws_secretsmanager_secret_rotation",
  "aws_secretsmanager_secret_version",
  "aws_security_group_rule",
  "aws_sns_topic_policy",
  "aws_sns_topic_subscription",
  "aws_vpc_endpoint_policy",
  "aws_vpc_endpoint_route_table_association",
  "aws_vpc_endpoint_security_group_association",
  "aws_vpc_endpoint_service_allowed_principal",
  "aws_vpc_endpoint_subnet_association",
  "aws_volume_attachment",
  "aws_wafv2_web_acl_association",
]);

export function isTaggable(type: string): boolean {
  return type.startsWith("aws_") && !UNTAGGABLE.has(type);
}
