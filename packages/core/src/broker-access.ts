import { BrokerError, BrokerHttp } from "@millrace/broker-admin";
import type { Cluster } from "@millrace/domain";
import { type BrokerAccess, type ClusterDriver, ProvisionError } from "@millrace/provisioner";
import { deploymentOf } from "./engine/index.ts";

/** The part of a broker's admin HTTP that use cases speak. */
export type BrokerHttpPort = Pick<
  BrokerHttp,
  | "settings"
  | "changeSettings"
  | "catchUp"
  | "storage"
  | "records"
  | "topics"
  | "groups"
  | "quotaUsage"
  | "metricFamilies"
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

/** The way to one cluster's broker. Throws `BrokerError` `unreachable` where there is none yet. */
export type BrokerHttpAccess = (cluster: Cluster) => Promise<BrokerHttpPort>;

/** Reaches brokers by the addresses and tokens that a driver knows. */
export function brokerHttpBy(access: ClusterDriver["access"]): BrokerHttpAccess {
  return async (cluster) => new BrokerHttp(await reach(cluster, access));
}

async function reach(cluster: Cluster, access: ClusterDriver["access"]): Promise<BrokerAccess> {
  const deployment = deploymentOf(cluster);
  if (deployment === undefined) throw notThere(cluster);
  try {
    return await access(deployment);
  } catch (error) {
    const isNotThere = error instanceof ProvisionError && error.code === "not_prepared";
    throw isNotThere ? notThere(cluster, error) : error;
  }
}

function notThere({ id }: Cluster, cause?: Error): BrokerError {
  return new BrokerError("unreachable", `cluster ${id} has no broker yet`, { cause });
}
