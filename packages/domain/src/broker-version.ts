/** Versions of the broker that new clusters can run, the one that they get first. */
export const BROKER_VERSIONS = ["0.1.0"] as const;
