/** How brokers and the control plane meet: at a gateway, to which the brokers connect. */
import { type BrokerSlot, brokerIdsOf, type ClusterId } from "@millrace/domain";
import { type BrokerAccess, type ClusterDriver, plaintextAddress } from "./cluster-driver.ts";

/** How the control plane calls brokers. The token is a secret: never log it, never store it. */
export interface Gateways {
  /** Base address of the gateways' internal listener. */
  readonly url: string;
  readonly token: string;
}

/** The gateways of an installation on one machine. */
export interface ControlLink extends Gateways {
  /** `host:port` to which brokers connect; the certificate is for this host. */
  readonly address: string;
}

/** What brokers verify the certificate of these gateways by. */
export function linkHost({ address }: ControlLink): string {
  return address.slice(0, address.lastIndexOf(":")).replace(/^\[(.*)\]$/, "$1");
}

/** Where credentials of broker slots are kept; the driver sees only the one that it has just asked for. */
export interface LinkCredentials {
  /** A new credential. It revokes all of the slot but the newest two. */
  issue(slot: BrokerSlot): Promise<string>;
  /** Revokes one that no slot has got. */
  withdraw(slot: BrokerSlot, credential: string): Promise<void>;
  /** Revokes every credential of the cluster, or of one of its brokers. */
  revoke(clusterId: BrokerSlot["clusterId"], brokerId?: number): Promise<void>;
}

/** A broker's admin HTTP at the gateways. */
export function linkedAdmin(
  { url, token }: Gateways,
  slot: BrokerSlot,
): Required<Omit<BrokerAccess, "kafka">> {
  const { clusterId, brokerId } = slot;
  return {
    adminUrl: `${url}/v1/clusters/${clusterId}/brokers/${brokerId}`,
    adminToken: token,
    slot,
  };
}

/** How to reach the brokers of clusters on AWS. Kafka's listeners are private to the cluster's network. */
export function awsAccess(gateways: Gateways): ClusterDriver["access"] {
  return async ({ clusterId, placement, brokers }, brokerId = firstOf(brokers)) => ({
    kafka: async () => plaintextAddress(placement),
    ...linkedAdmin(gateways, { clusterId: clusterId as ClusterId, brokerId }),
  });
}

function firstOf(brokers: number): number {
  return brokerIdsOf({ brokers })[0] ?? 0;
}
