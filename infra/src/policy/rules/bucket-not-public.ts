import { isLater, isTrue, list, type PolicyResource } from "../document.ts";
import { each, type PolicyRule, referring } from "../rule.ts";
import { type PolicyStatement, statementsOf } from "../statements.ts";

const BLOCKS = [
  "block_public_acls",
  "block_public_policy",
  "ignore_public_acls",
  "restrict_public_buckets",
] as const;

/** A bucket has all four public access blocks, refuses plain HTTP and has no public ACL. */
export const bucketNotPublic: PolicyRule = {
  name: "bucket-not-public",
  check: (document) => [
    ...each(document, ["aws_s3_bucket"], (bucket) => {
      const messages: string[] = [];
      const [block] = referring(document, "aws_s3_bucket_public_access_block", "bucket", bucket);
      const open = BLOCKS.filter((name) => !isTrue(block?.values[name]));
      if (open.length > 0) {
        messages.push(`add an aws_s3_bucket_public_access_block with ${open.join(", ")} = true`);
      }
      const policies = referring(document, "aws_s3_bucket_policy", "bucket", bucket);
      if (!policies.some(refusesPlainHttp)) {
        messages.push(
          "add an aws_s3_bucket_policy that denies s3:* where aws:SecureTransport is false",
        );
      }
      return messages;
    }),
    ...each(document, ["aws_s3_bucket", "aws_s3_bucket_acl"], ({ values }) =>
      typeof values.acl === "string" && values.acl.startsWith("public")
        ? `take the ACL ${values.acl} away`
        : undefined,
    ),
  ],
};

function refusesPlainHttp(policy: PolicyResource): boolean {
  const statements = statementsOf(policy.values.policy);
  // A plan that does not know the bucket's ARN knows nothing of its policy: the stack is checked.
  if (statements === undefined) return isLater(policy.values.policy);
  return statements.some(deniesPlainHttp);
}

function deniesPlainHttp(statement: PolicyStatement): boolean {
  const secure = statement.conditions.get("aws:securetransport") ?? [];
  return (
    statement.effect === "Deny" &&
    statement.actions.includes("s3:*") &&
    statement.principals.includes("*") &&
    list(secure).map(String).includes("false")
  );
}
