import type { KafkaAddress, KafkaAdmin } from "@millrace/broker-admin";
import type { Database } from "@millrace/db";
import type { Clock } from "@millrace/domain";
import type { PageTokens } from "./page-token.ts";

/** The part of Kafka's admin protocol that use cases speak. */
export type KafkaAdminPort = Pick<
  KafkaAdmin,
  "createTopic" | "deleteTopic" | "listTopics" | "describeTopic" | "listConsumerGroups"
>;

/** Runs `work` with a connection to one cluster's broker, closed afterwards. */
export type KafkaAccess = <T>(
  address: KafkaAddress,
  work: (admin: KafkaAdminPort) => Promise<T>,
) => Promise<T>;

/** What every use case that answers a caller works with. */
export interface Core {
  readonly db: Database;
  readonly clock: Clock;
  readonly pageTokens: PageTokens;
  readonly kafka: KafkaAccess;
}
