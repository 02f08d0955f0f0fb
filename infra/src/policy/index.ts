/**
 * The rules that a stack and each of its plans must pass before an apply. A stack has the settings, a plan the
 * resulting changes; a rule skips what a document does not contain, so both are checked.
 */
import { readDocument } from "./document.ts";
import type { PolicyContext, PolicyFinding } from "./finding.ts";
import type { PolicyRule } from "./rule.ts";
import { bucketNotPublic } from "./rules/bucket-not-public.ts";
import { dataLoss } from "./rules/data-loss.ts";
import { deletionProtection } from "./rules/deletion-protection.ts";
import { encryptionAtRest } from "./rules/encryption-at-rest.ts";
import { encryptionInTransit } from "./rules/encryption-in-transit.ts";
import { instanceMetadata } from "./rules/instance-metadata.ts";
import { openIngress } from "./rules/open-ingress.ts";
import { permissionsBoundary } from "./rules/permissions-boundary.ts";
import { plainSecrets } from "./rules/plain-secrets.ts";
import { policyWildcards } from "./rules/policy-wildcards.ts";
import { privateNetwork } from "./rules/private-network.ts";
import { requiredTags } from "./rules/required-tags.ts";
import { selfContained } from "./rules/self-contained.ts";

export type { PolicyContext, PolicyFinding } from "./finding.ts";

const POLICY_RULES: readonly PolicyRule[] = [
  bucketNotPublic,
  dataLoss,
  deletionProtection,
  encryptionAtRest,
  encryptionInTransit,
  instanceMetadata,
  openIngress,
  permissionsBoundary,
  plainSecrets,
  policyWildcards,
  privateNetwork,
  requiredTags,
  selfContained,
];

/**
 * The findings of a document, errors first, then by address. `input` is `cdk.tf.json` or
 * `terraform show -json`, as text or parsed; anything else throws a TypeError.
 */
export function checkPolicies(input: unknown, context: PolicyContext): PolicyFinding[] {
  const document = readDocument(input);
  return POLICY_RULES.flatMap((rule) =>
    rule.check(document, context).map(
      ({ address, message, severity = "error" }): PolicyFinding => ({
        rule: rule.name,
        severity,
        address,
        message,
      }),
    ),
  ).sort(
    (a, b) =>
      a.severity.localeCompare(b.severity) ||
      a.address.localeCompare(b.address) ||
      a.rule.localeCompare(b.rule),
  );
}
