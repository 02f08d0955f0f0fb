/**
 * Brokers that a cluster can run. Brokers do not share metadata yet, so a second one would be a
 * cluster of its own behind the same address. Slots share one bucket without a folder of their own,
 * too: a slot whose volume is blank is refused once another has written there, so that more than
 * one also needs a prefix for each in the bucket and in what the boot script counts.
 */
export const BROKERS_PER_CLUSTER_MAX = 1;
/** Slots that a stack can be planned with: three in each zone. */
export const BROKER_SLOTS_MAX = 9;
/** Zones that a stack is spread over; a third one is what a quorum needs, more only cost. */
export const ZONES_MAX = 3;
