import type { BrokerHttp, BrokerTopics } from "@millrace/broker-admin";
import type { Database, TenantDatabase } from "@millrace/db";
import type { BrokerStorage, Clock, Cluster } from "@millrace/domain";
import type { BrokerAccess, ClusterDrivers } from "@millrace/provisioner";
import type { Log } from "./log.ts";

/** What operations are carried out with. */
export interface WorkerTools {
  readonly db: Database;
  readonly clock: Clock;
  readonly drivers: ClusterDrivers;
  /** Proves that a broker serves clients; throws where it does not. */
  readonly smokeCheck: (access: BrokerAccess) => Promise<void>;
  /** Users of a broker. Methods throw `BrokerError`. */
  readonly users: (access: BrokerAccess) => Pick<BrokerHttp, "describeUser" | "putPassword">;
  /** Topics of a broker. Methods throw `BrokerError`. */
  readonly topics: (access: BrokerAccess) => Pick<BrokerTopics, "create" | "delete">;
  /** How full a broker's log is, and whether its uploads keep up. Throws `BrokerError`. */
  readonly storage: (access: BrokerAccess) => Promise<BrokerStorage>;
  /** Sees to it that the cluster's broker has the stored tuning. Leaves a broker that does not answer or refuses it to later rounds. */
  readonly applyTuning: (db: TenantDatabase, cluster: Cluster) => Promise<unknown>;
  readonly log: Log;
}

/** The same within one operation: the database has the rows of its tenant alone. */
export type OperationTools = Omit<WorkerTools, "db"> & { readonly db: TenantDatabase };
