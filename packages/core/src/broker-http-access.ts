import { BrokerError, BrokerHttp } from "@millrace/broker-admin";
import type { Cluster } from "@millrace/domain";
import { type ClusterDriver, ProvisionError } from "@millrace/provisioner";
import { deploymentOf } from "./engine/index.ts";

/** The part of a broker's admin HTTP that use cases speak. */
export type BrokerHttpPort = Pick<
  BrokerHttp,
  "settings" | "catchUp" | "storage" | "records" | "quotaUsage"
>;

/** The way to one cluster's broker. Throws `BrokerError` `unreachable` where there is none yet. */
export type BrokerHttpAccess = (cluster: Cluster) => Promise<BrokerHttpPort>;

/** Reaches brokers by the addresses and tokens that a driver knows. */
export function brokerHttpBy(access: ClusterDriver["access"]): BrokerHttpAccess {
  return async (cluster) => {
    const deployment = deploymentOf(cluster);
    if (deployment === undefined) throw notThere(cluster);
    try {
      return new BrokerHttp(await access(deployment));
    } catch (error) {
      if (error instanceof ProvisionError) throw notThere(cluster, error);
      throw error;
    }
  };
}

function notThere({ id }: Cluster, cause?: Error): BrokerError {
  return new BrokerError("unreachable", `cluster ${id} has no broker yet`, { cause });
}
