/** The brokers of a cluster: as they see each other, by the metadata that they share, and each as it reports itself. */
import type { BrokerStorage } from "./benchmark-guard.ts";

/**
 * `draining` serves, and gives away what it leads; `fenced` was not heard from and is replaced until it is back; `left` has
 * stopped, and nothing of it is needed any more.
 */
export const MEMBER_STATES = ["active", "draining", "fenced", "left"] as const;
export type MemberState = (typeof MEMBER_STATES)[number];

export interface ClusterMember {
  /** Kafka's node id. */
  readonly brokerId: number;
  readonly state: MemberState;
  /** Its zone. */
  readonly rack: string | undefined;
  readonly version: string;
  /** Partitions that it leads. */
  readonly leaders: number;
  /** Those of them that are on their way to another broker. */
  readonly moving: number;
  /** Bytes that clients write to them and read from them per second; each request counts as 8 KiB. Undefined until measured. */
  readonly load: number | undefined;
}

/** Something that happened to the brokers. */
export interface MemberEvent {
  readonly at: Date;
  /** One word, such as `joined` or `fenced`; later brokers may have further ones. */
  readonly kind: string;
  /** Undefined where it is about the cluster. */
  readonly brokerId: number | undefined;
  readonly text: string;
}

export interface ClusterMembers {
  readonly members: readonly ClusterMember[];
  /** Newest first. */
  readonly events: readonly MemberEvent[];
}

/** What a broker says of itself. */
export interface BrokerReport {
  readonly brokerId: number;
  readonly version: string | undefined;
  /** Milliseconds since its process started. */
  readonly uptimeMs: number | undefined;
  /** Undefined until it serves clients. */
  readonly storage: BrokerStorage | undefined;
}
