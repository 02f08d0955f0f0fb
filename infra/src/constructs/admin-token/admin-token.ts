import { SecretsmanagerSecret } from "@cdktn/provider-aws/lib/secretsmanager-secret/index.js";
import { SecretsmanagerSecretVersion } from "@cdktn/provider-aws/lib/secretsmanager-secret-version/index.js";
import { TerraformVariable } from "cdktn";
import { Construct } from "constructs";

/** The Terraform variable that brings the token: `TF_VAR_admin_token` of plan and apply. */
export const ADMIN_TOKEN_VARIABLE = "admin_token";

export interface AdminTokenProps {
  readonly name: string;
  readonly description: string;
  readonly kmsKeyArn: string;
}

/**
 * The token of the brokers' admin HTTP. The program that applies the stack generates it and passes it as an
 * ephemeral variable to a write-only attribute, so neither plan nor state contains it.
 */
export class AdminToken extends Construct {
  constructor(scope: Construct, id: string, props: AdminTokenProps) {
    super(scope, id);
    const token = new TerraformVariable(this, "value", {
      type: "string",
      sensitive: true,
      description: "Token of the brokers' admin HTTP: 32 random bytes, base64url",
    });
    token.overrideLogicalId(ADMIN_TOKEN_VARIABLE);
    token.addOverride("ephemeral", true);
    const secret = new SecretsmanagerSecret(this, "secret", {
      name: props.name,
      description: props.description,
      kmsKeyId: props.kmsKeyArn,
      // The token of a deleted cluster is not needed, and a restored cluster uses the name again.
      recoveryWindowInDays: 0,
    });
    new SecretsmanagerSecretVersion(this, "version", {
      secretId: secret.id,
      secretStringWo: token.stringValue,
      secretStringWoVersion: 1,
    });
  }
}
