import {
  BrokerError,
  BrokerHttp,
  type KafkaAddress,
  type KafkaAdmin,
  withKafkaAdmin,
} from "@millrace/broker-admin";
import { type Cluster, DomainError } from "@millrace/domain";
import { type ClusterDeployment, type ClusterDriver, ProvisionError } from "@millrace/provisioner";
import { deploymentOf } from "./engine/index.ts";

/** The part of a broker's admin HTTP that use cases speak. */
export type BrokerHttpPort = Pick<
  BrokerHttp,
  | "settings"
  | "changeSettings"
  | "catchUp"
  | "storage"
  | "records"
  | "quotaUsage"
  | "listUsers"
  | "describeUser"
  | "putPassword"
  | "removeCredentials"
  | "listAcls"
  | "createAcls"
  | "deleteAcl"
  | "listQuotas"
  | "alterQuota"
>;

/** The way to one cluster's broker. Throws `BrokerError` `unreachable` where there is none yet, `broker_failed`. */
export type BrokerHttpAccess = (cluster: Cluster) => Promise<BrokerHttpPort>;

/** The part of Kafka's admin protocol that use cases speak. */
export type KafkaAdminPort = Pick<
  KafkaAdmin,
  | "createTopic"
  | "deleteTopic"
  | "listTopics"
  | "describeTopic"
  | "describeTopicConfigs"
  | "alterTopicConfigs"
  | "createPartitions"
  | "listConsumerGroups"
>;

/**
 * Runs `work` with a connection to one cluster's broker, closed afterwards. Throws `BrokerError`, and `broker_failed`
 * where the CA is damaged.
 */
export type KafkaAccess = <T>(
  cluster: Cluster,
  work: (admin: KafkaAdminPort) => Promise<T>,
) => Promise<T>;

/** Reaches brokers by the addresses and tokens that a driver knows. */
export function brokerHttpBy(access: ClusterDriver["access"]): BrokerHttpAccess {
  return async (cluster) => new BrokerHttp(await reach(cluster, access));
}

/** Reaches brokers by Kafka's protocol: the one place where the control plane signs in for its callers. */
export function kafkaBy(
  address: (deployment: ClusterDeployment) => Promise<KafkaAddress>,
): KafkaAccess {
  return async (cluster, work) => await withKafkaAdmin(await reach(cluster, address), work);
}

async function reach<T>(
  cluster: Cluster,
  way: (deployment: ClusterDeployment) => Promise<T>,
): Promise<T> {
  const deployment = deploymentOf(cluster);
  if (deployment === undefined) throw notThere(cluster);
  try {
    return await way(deployment);
  } catch (error) {
    if (!(error instanceof ProvisionError)) throw error;
    if (error.code === "not_prepared") throw notThere(cluster, error);
    if (error.code === "config") throw caDamaged(error);
    throw error;
  }
}

/** On the way to a broker, only the CA's file can be wrong. Its path is not for the tenant. */
function caDamaged(cause: ProvisionError): DomainError {
  return new DomainError("broker_failed", "The installation's CA cannot be read.", {
    remedy: "Ask the installation's operator to restore keys/ca.pem from a backup.",
    cause,
  });
}

function notThere({ id }: Cluster, cause?: Error): BrokerError {
  return new BrokerError("unreachable", `cluster ${id} has no broker yet`, { cause });
}
