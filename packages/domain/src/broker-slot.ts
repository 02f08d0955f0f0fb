/** Brokers of one cluster. Two and more share their metadata in a PostgreSQL database; one keeps it in a file of its own. */
export const BROKERS_PER_CLUSTER_MAX = 9;
/**
 * Brokers that a cluster on AWS can run. Its stack has no metadata database yet, so a second broker would be a cluster of its
 * own behind the same address. Slots share one bucket without a folder of their own, too: a slot whose volume is
 * blank is refused once another has written there.
 */
export const AWS_BROKERS_MAX = 1;
/** Slots that a stack can be planned with: three in each zone. */
export const BROKER_SLOTS_MAX = 9;
/** Zones that a stack is spread over; a third one is what a quorum needs, more only cost. */
export const ZONES_MAX = 3;

/** Kafka's node ids of a cluster's brokers: 0 for one that is alone, from 1 for several. */
export function brokerIdsOf({ brokers }: { readonly brokers: number }): readonly number[] {
  return brokers === 1 ? [0] : Array.from({ length: brokers }, (_, index) => index + 1);
}

/** How error messages and logs name a broker: by its id, where it is not the only one. */
export function brokerName(brokerId: number): string {
  return brokerId === 0 ? "the broker" : `broker ${brokerId}`;
}
