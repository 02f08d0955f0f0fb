import { blocks, type PolicyResource } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";
import { type PolicyStatement, statementsOf } from "../statements.ts";

/**
 * Actions that AWS cannot narrow to a resource (Service Authorization Reference), or whose answer
 * is no more than a listing. Each may stand beside `Resource: "*"`.
 */
const WITHOUT_RESOURCE: readonly { readonly action: RegExp; readonly reason: string }[] = [
  { action: /^(ec2|autoscaling|elasticloadbalancing):Describe/, reason: "describes have no ARN" },
  { action: /^ec2:GetEbsDefaultKmsKeyId$/, reason: "tells a setting of the account" },
  {
    action: /^cloudwatch:PutMetricData$/,
    reason: "metrics have no ARN; the namespace is a condition",
  },
  {
    action: /^ecr:GetAuthorizationToken$/,
    reason: "the token is of the registry, not of a repository",
  },
  { action: /^tag:GetResources$/, reason: "finds resources by their tags" },
  { action: /^sts:GetCallerIdentity$/, reason: "tells who one is" },
  { action: /^logs:DescribeLogGroups$/, reason: "a listing" },
  { action: /^kms:ListAliases$/, reason: "a listing" },
  { action: /^route53:CreateHostedZone$/, reason: "a zone has no ARN before it is there" },
  { action: /^route53:ListHostedZonesByName$/, reason: "a listing" },
];
/** Condition keys that narrow a statement as an ARN would. */
const NARROWING =
  /^(aws:resourcetag|aws:requesttag|ec2:resourcetag|autoscaling:resourcetag|iam:resourcetag|secretsmanager:resourcetag|kms:viaservice|cloudwatch:namespace|iam:passedtoservice|aws:sourcevpce?|aws:sourcearn|aws:sourceaccount|aws:principalaccount|aws:principalorgid|aws:principaltag|aws:principalarn|kms:calleraccount)(\/|$)/;
/** The attribute with a policy's text, by type. */
const DOCUMENTS: Readonly<Record<string, string>> = {
  aws_efs_file_system_policy: "policy",
  aws_iam_policy: "policy",
  aws_iam_role: "assume_role_policy",
  aws_iam_role_policy: "policy",
  aws_kms_key: "policy",
  aws_kms_key_policy: "policy",
  aws_s3_bucket_policy: "policy",
  aws_secretsmanager_secret_policy: "policy",
  aws_sns_topic_policy: "policy",
  aws_vpc_endpoint: "policy",
};
/** Policies that stand on the resource itself: `Resource: "*"` there means that resource. */
const ON_RESOURCE = new Set([
  "aws_efs_file_system_policy",
  "aws_kms_key",
  "aws_kms_key_policy",
  "aws_secretsmanager_secret_policy",
]);

/** Policies allow named actions on named resources to named principals. */
export const policyWildcards: PolicyRule = {
  name: "policy-wildcards",
  check: (document) => [
    ...each(document, Object.keys(DOCUMENTS), (resource) => {
      if (hasNoEndpointPolicy(resource)) return [];
      const text = resource.values[DOCUMENTS[resource.type] as string];
      return wildcardsIn(resource, text);
    }),
    ...each(document, ["aws_iam_role"], (role) =>
      blocks(role.values, "inline_policy").flatMap((inline) => wildcardsIn(role, inline.policy)),
    ),
  ],
};

/**
 * An endpoint of a service that is not AWS's own: its policy has no effect, and reads back as one that allows
 * everything. The service decides who may connect.
 */
function hasNoEndpointPolicy({ type, values }: PolicyResource): boolean {
  const service = values.service_name;
  return (
    type === "aws_vpc_endpoint" &&
    typeof service === "string" &&
    service.startsWith("com.amazonaws.vpce.")
  );
}

function wildcardsIn(resource: PolicyResource, text: unknown): string[] {
  const statements = statementsOf(text);
  if (statements === undefined) {
    // An expression hides the policy from every reader; the stack must spell it out.
    return typeof text === "string"
      ? ["write the policy as plain JSON text, not as an expression"]
      : [];
  }
  return statements
    .filter(({ effect }) => effect === "Allow")
    .flatMap((statement) => complaints(resource.type, statement));
}

function complaints(type: string, statement: PolicyStatement): string[] {
  const narrowed = [...statement.conditions.keys()].some((key) => NARROWING.test(key));
  const found: string[] = [];
  if (statement.negated.length > 0) {
    found.push(`allows all but something (${statement.negated.join(", ")}): name what is allowed`);
  }
  const wide = statement.actions.filter((action) => /^(\*|[a-z0-9-]+:\*)$/i.test(action));
  if (wide.length > 0 && !administersItself(type, statement)) {
    found.push(`allows ${wide.join(", ")}: name the actions`);
  }
  if (statement.resources.includes("*") && !narrowed && !ON_RESOURCE.has(type)) {
    const loose = statement.actions.filter(
      (action) => !WITHOUT_RESOURCE.some((known) => known.action.test(action)),
    );
    if (loose.length > 0) found.push(`allows ${loose.join(", ")} on every resource: name them`);
  }
  // An endpoint's policy narrows what passes through it; who may call is the caller's policy.
  if (type !== "aws_vpc_endpoint" && statement.principals.includes("*") && !narrowed) {
    found.push("allows it to everybody: name the principal or add a condition");
  }
  return found;
}

/** A key without an administrator is lost: the account's root may do everything with its own key. */
function administersItself(type: string, { actions, principals }: PolicyStatement): boolean {
  return (
    (type === "aws_kms_key" || type === "aws_kms_key_policy") &&
    actions.every((action) => action === "kms:*") &&
    principals.length > 0 &&
    principals.every((principal) => principal.endsWith(":root"))
  );
}
