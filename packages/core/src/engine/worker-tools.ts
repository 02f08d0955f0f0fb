import type { KafkaAddress } from "@millrace/broker-admin";
import type { Database } from "@millrace/db";
import type { Clock } from "@millrace/domain";
import type { ClusterDrivers } from "@millrace/provisioner";
import type { Log } from "./log.ts";

/** What operations are carried out with. */
export interface WorkerTools {
  readonly db: Database;
  readonly clock: Clock;
  readonly drivers: ClusterDrivers;
  /** Proves that a broker serves clients; throws where it does not. */
  readonly smokeCheck: (address: KafkaAddress) => Promise<void>;
  readonly log: Log;
}
