/** Brokers of one cluster. Two and more share their metadata in a PostgreSQL database; one keeps it in a file of its own. */
export const BROKERS_PER_CLUSTER_MAX = 9;
/** Zones that a stack is spread over; more of them only cost. */
export const ZONES_MAX = 3;
/** Zones that a cluster of several brokers on AWS has at least: its metadata database has a standby in another one. */
export const ZONES_OF_SEVERAL_MIN = 2;

/** Kafka's node ids of a cluster's brokers: 0 for one that is alone, from 1 for several. */
export function brokerIdsOf({ brokers }: { readonly brokers: number }): readonly number[] {
  return brokers === 1 ? [0] : Array.from({ length: brokers }, (_, index) => index + 1);
}

/** A broker's place on AWS. */
export interface ZonedSlot {
  /** Kafka's node id. */
  readonly id: number;
  /** Of its zone among the cluster's. */
  readonly zoneIndex: number;
}

/** Brokers go round the zones: the first one is in the first zone. A broker never changes its zone. */
export function zonedSlots(brokers: number, zones: number): readonly ZonedSlot[] {
  return brokerIdsOf({ brokers }).map((id, index) => ({ id, zoneIndex: index % zones }));
}

/**
 * Brokers that have no other one in their zone. A log's volume can only be attached in its own zone, so what such a broker had
 * not uploaded waits until Auto Scaling has replaced its instance; others take over within seconds or minutes.
 */
export function brokersAloneInZone(brokers: number, zones: number): readonly number[] {
  const slots = zonedSlots(brokers, zones);
  return slots
    .filter(({ id, zoneIndex }) =>
      slots.every((other) => other.id === id || other.zoneIndex !== zoneIndex),
    )
    .map(({ id }) => id);
}

/** How error messages and logs name a broker: by its id, where it is not the only one. */
export function brokerName(brokerId: number): string {
  return brokerId === 0 ? "the broker" : `broker ${brokerId}`;
}
