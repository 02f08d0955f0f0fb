import { KmsAlias } from "@cdktn/provider-aws/lib/kms-alias/index.js";
import { KmsKey } from "@cdktn/provider-aws/lib/kms-key/index.js";
import { Construct } from "constructs";
import { policyText } from "../identity/statement.ts";

export interface EncryptionKeyProps {
  /** What the key is called beside its id: `alias/<name>`. */
  readonly name: string;
  readonly description: string;
  readonly accountId: string;
  readonly region: string;
  /** The log group that CloudWatch encrypts with the key. */
  readonly logGroup: string;
  /** ARN of the role that creates the key. */
  readonly provisionerRoleArn: string;
  /** False only in the stack that is destroyed next. */
  readonly protected: boolean;
}

/** AWS's lower bound: in this many days the deletion of a key can be taken back. */
const DELETION_WINDOW_DAYS = 7;

/** What an apply does to a key that it has just created, and a purge if that apply failed. */
const NEW_KEY_ACTIONS = [
  "kms:CreateAlias",
  "kms:DeleteAlias",
  "kms:EnableKeyRotation",
  "kms:ScheduleKeyDeletion",
];

/** The key of everything that one cluster stores. Who deletes it deletes all of that. */
export class EncryptionKey extends Construct {
  readonly arn: string;

  constructor(scope: Construct, id: string, props: EncryptionKeyProps) {
    super(scope, id);
    const { accountId, region, logGroup, provisionerRoleArn } = props;
    const key = new KmsKey(this, "key", {
      description: props.description,
      enableKeyRotation: true,
      deletionWindowInDays: DELETION_WINDOW_DAYS,
      policy: policyText([
        {
          // Delegates access to the account's IAM policies; otherwise the key could not be administered.
          Sid: "Account",
          Effect: "Allow",
          Principal: { AWS: `arn:aws:iam::${accountId}:root` },
          Action: ["kms:*"],
          Resource: ["*"],
        },
        {
          // The role's own policies allow this by the key's tags, which KMS's authorization knows up to five minutes
          // after CreateKey. The key's policy holds from the start.
          Sid: "Provisioner",
          Effect: "Allow",
          Principal: { AWS: provisionerRoleArn },
          Action: NEW_KEY_ACTIONS,
          Resource: ["*"],
        },
        {
          Sid: "Logs",
          Effect: "Allow",
          Principal: { Service: `logs.${region}.amazonaws.com` },
          Action: ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
          Resource: ["*"],
          Condition: {
            ArnEquals: {
              "kms:EncryptionContext:aws:logs:arn": `arn:aws:logs:${region}:${accountId}:log-group:${logGroup}`,
            },
          },
        },
      ]),
      lifecycle: { preventDestroy: props.protected },
    });
    new KmsAlias(this, "alias", { name: `alias/${props.name}`, targetKeyId: key.id });
    this.arn = key.arn;
  }
}
