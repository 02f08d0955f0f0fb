/** How brokers of this machine and the control plane meet: at a gateway, to which the brokers connect. */
import type { BrokerSlot } from "@millrace/domain";

/** The gateways of the installation. The token is a secret: never log it, never store it. */
export interface ControlLink {
  /** `host:port` to which brokers connect; the certificate is for this host. */
  readonly address: string;
  /** Base address of the gateways' internal listener. */
  readonly url: string;
  readonly token: string;
}

/** Where credentials of broker slots are kept; the driver sees only the one that it has just asked for. */
export interface LinkCredentials {
  /** A new credential. It revokes all of the slot but the newest two. */
  issue(slot: BrokerSlot): Promise<string>;
  /** Revokes every credential of the cluster. */
  revoke(clusterId: BrokerSlot["clusterId"]): Promise<void>;
}

/** Address of a broker's admin HTTP at the gateways, without a path. */
export function linkedAdminUrl({ url }: ControlLink, { clusterId, brokerId }: BrokerSlot): string {
  return `${url}/v1/clusters/${clusterId}/brokers/${brokerId}`;
}
