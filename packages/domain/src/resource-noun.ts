/** Resource types by the noun that people know them by; the first pattern that matches counts. */
const RESOURCE_NOUNS: readonly [noun: string, type: RegExp][] = [
  ["Write-ahead log volumes", /^aws_(ebs|volume)/],
  ["Data bucket", /^aws_s3_/],
  ["Metadata database", /^aws_db_/],
  ["Brokers", /^aws_(autoscaling|launch_template|instance|placement)|^process$/],
  ["Endpoint", /^aws_(lb|route53|vpc_endpoint_service|acm)/],
  [
    "Network",
    /^aws_(vpc|subnet|route|default_|internet_gateway|nat|eip|network|security_group|flow_log|ec2_managed)/,
  ],
  ["Identity", /^aws_iam_/],
  ["Keys and secrets", /^aws_(kms|secretsmanager|ssm)/],
  ["Logs and alarms", /^aws_(cloudwatch|sns|xray)/],
  ["Folder and files", /^(folder|file)$/],
];
const OTHERS = "Other";

/** What a plan shows together: by what things are for instead of by what AWS calls them. */
export const PLAN_NOUNS: readonly string[] = [...RESOURCE_NOUNS.map(([noun]) => noun), OTHERS];

/** The noun of a resource type such as `aws_ebs_volume`; one of {@link PLAN_NOUNS}. */
export function nounOf(type: string): string {
  return RESOURCE_NOUNS.find(([, pattern]) => pattern.test(type))?.[0] ?? OTHERS;
}
