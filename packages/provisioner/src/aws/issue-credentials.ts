import { PutSecretValueCommand, type SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import type { BrokerSlot } from "@millrace/domain";
import type { LinkCredentials } from "../control-link.ts";

export interface IssueOptions {
  readonly credentials: LinkCredentials;
  readonly slots: readonly BrokerSlot[];
  /** Name of the secret of a slot. */
  readonly secretOf: (brokerId: number) => string;
}

/**
 * Gives each slot another credential of the control link. The control plane knows it before the slot does, and still
 * accepts the one before, so a broker can dial a gateway at any moment. Slots fetch it within a minute.
 */
export async function issueCredentials(
  secrets: SecretsManagerClient,
  { credentials, slots, secretOf }: IssueOptions,
): Promise<void> {
  for (const slot of slots) {
    const SecretString = await credentials.issue(slot);
    const SecretId = secretOf(slot.brokerId);
    try {
      await secrets.send(new PutSecretValueCommand({ SecretId, SecretString }));
    } catch (error) {
      // Each try would otherwise leave one more that no slot has, until the one that the slot uses is not among the newest.
      await credentials.withdraw(slot, SecretString);
      throw error;
    }
  }
}
