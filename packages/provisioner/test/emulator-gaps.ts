/**
 * Parts of a cluster's stack that the emulator (moto 5) does not support. They are left out of the stacks applied
 * there, and covered by plans of the whole stack instead. `aws/gaps.test.ts` asserts that each gap still exists.
 */
export interface EmulatorGap {
  /** A resource type, or `type.attribute`, as in `SynthRun.without`. */
  readonly without: string;
  readonly reason: string;
}

export const EMULATOR_GAPS: readonly EmulatorGap[] = [
  {
    without: "aws_vpc_security_group_ingress_rule.description",
    reason: "the description of a rule about a group or a prefix list reads back as absent",
  },
  {
    without: "aws_vpc_security_group_egress_rule.description",
    reason: "the description of a rule about a group or a prefix list reads back as absent",
  },
  {
    without: "aws_launch_template.tags",
    reason: "a template's own tags read back as a specification of its instances' tags",
  },
  {
    without: "aws_lb.enforce_security_group_inbound_rules_on_private_link_traffic",
    reason: "the setting is forgotten: it reads back as absent",
  },
  {
    without: "aws_db_instance.performance_insights_enabled",
    reason: "the setting is forgotten: it reads back as absent",
  },
  {
    without: "aws_db_instance.performance_insights_kms_key_id",
    reason: "the key of the setting above",
  },
  {
    without: "aws_db_parameter_group.parameter",
    reason: "parameters read back without their source, and Terraform takes them for defaults",
  },
  {
    without: "aws_route53_zone",
    reason: "a zone that was made with a VPC reads back as public, and refuses its VPC afterwards",
  },
  {
    without: "aws_route53_record",
    reason: "stands in a zone of the kind above",
  },
];
