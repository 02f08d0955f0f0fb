import type { BrokerHttp, KafkaAddress, KafkaAdmin } from "@millrace/broker-admin";
import type { Database, TenantDatabase } from "@millrace/db";
import type { BrokerStorage, Clock } from "@millrace/domain";
import type { BrokerAccess, ClusterDrivers } from "@millrace/provisioner";
import type { Log } from "./log.ts";

/** What operations are carried out with. */
export interface WorkerTools {
  readonly db: Database;
  readonly clock: Clock;
  readonly drivers: ClusterDrivers;
  /** Proves that a broker serves clients; throws where it does not. */
  readonly smokeCheck: (address: KafkaAddress) => Promise<void>;
  /** Runs `work` with a connection to a broker, closed afterwards. */
  readonly kafka: <T>(
    address: KafkaAddress,
    work: (admin: Pick<KafkaAdmin, "createTopic" | "deleteTopic">) => Promise<T>,
  ) => Promise<T>;
  /** Users of a broker. Methods throw `BrokerError`. */
  readonly users: (access: BrokerAccess) => Pick<BrokerHttp, "describeUser" | "putPassword">;
  /** How full a broker's log is, and whether its uploads keep up. Throws `BrokerError`. */
  readonly storage: (access: BrokerAccess) => Promise<BrokerStorage>;
  readonly log: Log;
}

/** The same within one operation: the database has the rows of its tenant alone. */
export type OperationTools = Omit<WorkerTools, "db"> & { readonly db: TenantDatabase };
