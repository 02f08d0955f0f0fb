import { SecretsmanagerSecret } from "@cdktn/provider-aws/lib/secretsmanager-secret/index.js";
import { Construct } from "constructs";

export interface LinkCredentialProps {
  readonly name: string;
  readonly description: string;
  readonly kmsKeyArn: string;
}

/**
 * The secret with a slot's credential of the control link. The program that applies the stack writes its value, so
 * neither plan nor state contains it.
 */
export class LinkCredential extends Construct {
  constructor(scope: Construct, id: string, props: LinkCredentialProps) {
    super(scope, id);
    new SecretsmanagerSecret(this, "secret", {
      name: props.name,
      description: props.description,
      kmsKeyId: props.kmsKeyArn,
      // The credential of a deleted cluster is not needed, and a restored cluster uses the name again.
      recoveryWindowInDays: 0,
    });
  }
}
