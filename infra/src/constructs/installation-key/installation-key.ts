import { KmsAlias } from "@cdktn/provider-aws/lib/kms-alias/index.js";
import { KmsKey } from "@cdktn/provider-aws/lib/kms-key/index.js";
import { Construct } from "constructs";
import { policyText } from "../identity/statement.ts";

export interface InstallationKeyProps {
  /** What the key is called beside its id: `alias/<name>`. */
  readonly name: string;
  readonly description: string;
  readonly accountId: string;
  readonly region: string;
  /** Begins the log groups that CloudWatch encrypts with the key. */
  readonly logGroupPrefix: string;
}

/** A mistake must be noticed within this, or the installation's data cannot be read any more. */
const DELETION_WINDOW_DAYS = 30;

/** A key of the installation itself. No change of its stack can delete it. */
export class InstallationKey extends Construct {
  readonly arn: string;

  constructor(scope: Construct, id: string, props: InstallationKeyProps) {
    super(scope, id);
    const { accountId, region } = props;
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
          Sid: "Logs",
          Effect: "Allow",
          Principal: { Service: `logs.${region}.amazonaws.com` },
          Action: ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
          Resource: ["*"],
          Condition: {
            ArnLike: {
              "kms:EncryptionContext:aws:logs:arn": `arn:aws:logs:${region}:${accountId}:log-group:${props.logGroupPrefix}*`,
            },
          },
        },
      ]),
      lifecycle: { preventDestroy: true },
    });
    new KmsAlias(this, "alias", { name: `alias/${props.name}`, targetKeyId: key.id });
    this.arn = key.arn;
  }
}
