import { BrokerError, BrokerHttp, type ClusterHttp, clusterHttp } from "@millrace/broker-admin";
import { brokerIdsOf, type Cluster } from "@millrace/domain";
import { type BrokerAccess, type ClusterDriver, ProvisionError } from "@millrace/provisioner";
import { deploymentOf } from "./engine/index.ts";

/** The part of brokers' admin HTTP that use cases speak. */
export type BrokerHttpPort = ClusterHttp;

/** The way to one cluster's brokers. Throws `BrokerError` `unreachable` where there is none yet. */
export type BrokerHttpAccess = (cluster: Cluster) => Promise<BrokerHttpPort>;

/** Reaches brokers by the addresses and tokens that a driver knows. */
export function brokerHttpBy(access: ClusterDriver["access"]): BrokerHttpAccess {
  return async (cluster) => {
    const brokers = brokerIdsOf(cluster).map(async (brokerId) => {
      return new BrokerHttp({ ...(await reach(cluster, access, brokerId)), brokerId });
    });
    return await clusterHttp(await Promise.all(brokers));
  };
}

async function reach(
  cluster: Cluster,
  access: ClusterDriver["access"],
  brokerId: number,
): Promise<BrokerAccess> {
  const deployment = deploymentOf(cluster);
  if (deployment === undefined) throw notThere(cluster);
  try {
    return await access(deployment, brokerId);
  } catch (error) {
    const isNotThere = error instanceof ProvisionError && error.code === "not_prepared";
    throw isNotThere ? notThere(cluster, error) : error;
  }
}

function notThere({ id }: Cluster, cause?: Error): BrokerError {
  return new BrokerError("unreachable", `cluster ${id} has no broker yet`, { cause });
}
