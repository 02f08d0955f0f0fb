/**
 * Looks, before a plan is made, at the policies of KMS keys that Millrace did not create. Without it a wrong policy shows
 * late: Auto Scaling starts no instance, or an apply stops half-way at the log group.
 *
 * It refuses only what the policy says for certain. What it cannot read or evaluate, it reports.
 */
import { GetEbsDefaultKmsKeyIdCommand } from "@aws-sdk/client-ec2";
import { DescribeKeyCommand, GetKeyPolicyCommand, ListGrantsCommand } from "@aws-sdk/client-kms";
import {
  type AccessRequest,
  isAllowed,
  type PolicyDocument,
  type PolicyStatement,
} from "@millrace/infra";
import { ProvisionError } from "../cluster-driver.ts";
import type { AwsClients } from "./aws-account.ts";
import { detailOfAws } from "./sdk-errors.ts";

export interface KeyPreflightOptions {
  readonly accountId: string;
  readonly region: string;
  readonly logGroup: string;
  /** The tenant's own key of the cluster's storage. */
  readonly storageKeyArn: string | undefined;
  /** Reports what could not be checked. */
  readonly warn: (message: string) => void;
}

type Clients = Pick<AwsClients, "ec2" | "kms">;

/** Who is to use a key, and for what. */
interface KeyUse {
  /** In the message: `the cluster's key`. */
  readonly what: string;
  /** In the message: `CloudWatch Logs`. */
  readonly who: string;
  /** As policies name it. */
  readonly principal: { readonly kind: "AWS" | "Service"; readonly name: string };
  readonly actions: readonly string[];
  /** Condition keys of its requests. */
  readonly context: Readonly<Record<string, string>>;
  /** What AWS documents as the statements that allow it. */
  readonly statements: readonly PolicyStatement[];
}

/** The key of a new account, which AWS manages and lets every service use. */
const AWS_MANAGED_ALIAS = "alias/aws/ebs";

/** Throws `ProvisionError` `config` if a key's policy lacks what the cluster needs; says which statements to add. */
export async function checkKeys(clients: Clients, options: KeyPreflightOptions): Promise<void> {
  const { storageKeyArn, warn } = options;
  if (storageKeyArn !== undefined) {
    await attempt(warn, `the policy of ${storageKeyArn}`, () =>
      checkKey(clients, storageKeyArn, logsUse(options)),
    );
  }
  await attempt(warn, "the account's default key of EBS", async () => {
    const { KmsKeyId: key } = await clients.ec2.send(new GetEbsDefaultKmsKeyIdCommand({}));
    if (key === undefined || key.endsWith(AWS_MANAGED_ALIAS)) return;
    await checkKey(clients, key, autoScalingUse(options));
  });
}

async function attempt(
  warn: KeyPreflightOptions["warn"],
  what: string,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ProvisionError) throw error;
    warn(`${what} could not be checked: ${detailOfAws(error)}`);
  }
}

async function checkKey({ kms }: Clients, key: string, use: KeyUse): Promise<void> {
  const { KeyMetadata: found } = await kms.send(new DescribeKeyCommand({ KeyId: key }));
  if (found?.KeyManager !== "CUSTOMER") return;
  const KeyId = found.Arn ?? key;
  const answer = await kms.send(new GetKeyPolicyCommand({ KeyId, PolicyName: "default" }));
  const policy = JSON.parse(answer.Policy ?? "{}") as PolicyDocument;
  if (allows(policy, KeyId, use)) return;
  const asGrantee = new ListGrantsCommand({ KeyId, GranteePrincipal: use.principal.name });
  if (use.principal.kind === "AWS" && (await kms.send(asGrantee)).Grants?.length) return;
  const unknown = unknownConditions(policy, use);
  if (unknown.length > 0) {
    throw new Error(`its policy has conditions that are not evaluated here: ${unknown.join(", ")}`);
  }
  const statements = JSON.stringify(use.statements, null, 2);
  throw new ProvisionError("config", `${use.what} ${KeyId} does not let ${use.who} use it`, {
    detail: `Add to the key's policy:\n${statements}`,
  });
}

/** Condition keys whose values in the real request are not known here, so that nothing is certain. */
function unknownConditions(policy: PolicyDocument, use: KeyUse): string[] {
  const keys = naming(policy, use).flatMap(({ Condition }) =>
    Object.values(Condition ?? {}).flatMap((each) => Object.keys(each)),
  );
  return [...new Set(keys)].filter((key) => !(key in use.context));
}

function naming(policy: PolicyDocument, { principal }: KeyUse): PolicyStatement[] {
  return [policy.Statement].flat().filter((each) => isNamed(each, principal));
}

function allows(policy: PolicyDocument, resource: string, use: KeyUse): boolean {
  const document: PolicyDocument = { Version: "2012-10-17", Statement: naming(policy, use) };
  return use.actions.every((action) => {
    const request: AccessRequest = { action, resource, context: use.context };
    return isAllowed({ identity: [], resource: document }, request);
  });
}

function isNamed({ Principal: named }: PolicyStatement, { kind, name }: KeyUse["principal"]) {
  if (named === undefined) return false;
  if (named === "*") return true;
  const names = [named[kind] ?? []].flat();
  return names.includes(name) || names.includes("*");
}

/** Source: "Encrypt log data in CloudWatch Logs using AWS KMS", CloudWatch Logs User Guide. */
function logsUse({ accountId, region, logGroup }: KeyPreflightOptions): KeyUse {
  const service = `logs.${region}.amazonaws.com`;
  const arn = `arn:aws:logs:${region}:${accountId}:log-group:${logGroup}`;
  return {
    what: "the cluster's key",
    who: "CloudWatch Logs",
    principal: { kind: "Service", name: service },
    actions: ["kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"],
    context: {
      "kms:EncryptionContext:aws:logs:arn": arn,
      "aws:SourceAccount": accountId,
      "aws:SourceArn": arn,
    },
    statements: [
      {
        Sid: "MillraceLogs",
        Effect: "Allow",
        Principal: { Service: service },
        Action: [
          ...["kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*"],
          ...["kms:GenerateDataKey*", "kms:Describe*"],
        ],
        Resource: "*",
        Condition: { ArnEquals: { "kms:EncryptionContext:aws:logs:arn": arn } },
      },
    ],
  };
}

/** Source: "Required AWS KMS key policy for use with encrypted volumes", Amazon EC2 Auto Scaling User Guide. */
function autoScalingUse({ accountId, region }: KeyPreflightOptions): KeyUse {
  const role = `arn:aws:iam::${accountId}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling`;
  const statement = { Effect: "Allow", Principal: { AWS: role }, Resource: "*" } as const;
  return {
    what: "the account's default key of EBS",
    who: "Auto Scaling, which starts the instances,",
    principal: { kind: "AWS", name: role },
    actions: [
      ...["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey"],
      "kms:GenerateDataKeyWithoutPlaintext",
    ],
    context: {
      "aws:PrincipalArn": role,
      "aws:PrincipalAccount": accountId,
      "kms:CallerAccount": accountId,
      "kms:GrantIsForAWSResource": "true",
      "kms:ViaService": `ec2.${region}.amazonaws.com`,
    },
    statements: [
      {
        ...statement,
        Sid: "AutoScaling",
        Action: [
          ...["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*"],
          ...["kms:GenerateDataKey*", "kms:DescribeKey"],
        ],
      },
      {
        ...statement,
        Sid: "AutoScalingGrants",
        Action: ["kms:CreateGrant"],
        Condition: { Bool: { "kms:GrantIsForAWSResource": "true" } },
      },
    ],
  };
}
