import { SecretsmanagerSecret } from "@cdktn/provider-aws/lib/secretsmanager-secret/index.js";
import { SecretsmanagerSecretVersion } from "@cdktn/provider-aws/lib/secretsmanager-secret-version/index.js";
import { TerraformVariable } from "cdktn";
import { Construct } from "constructs";

/**
 * A value that is generated at apply time and never stored in plan or state: use it in
 * write-only attributes only. Set `TF_VAR_<name>` for plan and apply.
 */
export function ephemeralVariable(scope: Construct, name: string, description: string): string {
  const variable = new TerraformVariable(scope, `variable-${name}`, {
    type: "string",
    sensitive: true,
    description,
  });
  variable.overrideLogicalId(name);
  variable.addOverride("ephemeral", true);
  return variable.stringValue;
}

export interface SealedValueProps {
  readonly name: string;
  readonly description: string;
  readonly kmsKeyArn: string;
  /**
   * Made of ephemeral variables; stored again only where the version is another. Absent where a
   * program puts the value in.
   */
  readonly value?: { readonly text: string; readonly version: number };
}

/** Days in which a secret that was deleted by mistake can be brought back. */
const RECOVERY_DAYS = 7;

/** A secret in Secrets Manager. */
export class SealedValue extends Construct {
  readonly arn: string;
  /** The same ARN, for who reads the value: it is known once the value of this version is there. */
  readonly filledArn: string;

  constructor(scope: Construct, id: string, props: SealedValueProps) {
    super(scope, id);
    const secret = new SecretsmanagerSecret(this, "secret", {
      name: props.name,
      description: props.description,
      kmsKeyId: props.kmsKeyArn,
      recoveryWindowInDays: RECOVERY_DAYS,
    });
    this.arn = secret.arn;
    this.filledArn = secret.arn;
    if (props.value === undefined) return;
    const version = new SecretsmanagerSecretVersion(this, "version", {
      secretId: secret.id,
      secretStringWo: props.value.text,
      secretStringWoVersion: props.value.version,
    });
    this.filledArn = version.arn;
  }
}
