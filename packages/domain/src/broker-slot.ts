/**
 * Brokers that a cluster can run. Brokers do not share metadata yet, so a second one would be a
 * cluster of its own behind the same address.
 */
export const BROKERS_PER_CLUSTER_MAX = 1;
/** Slots that a stack can be planned with: three in each zone. */
export const BROKER_SLOTS_MAX = 9;
/** Zones that a stack is spread over; a third one is what a quorum needs, more only cost. */
export const ZONES_MAX = 3;
