/** The PostgreSQL database of RDS in which several brokers of a cluster on AWS share their metadata. */

/** Instance classes; each has a price. Brokers read a counter every 50 ms and commit once per upload, so a small one does. */
const AWS_DATABASE_CLASSES = ["db.t4g.small", "db.t4g.medium", "db.m7g.large"] as const;
export type AwsDatabaseClass = (typeof AWS_DATABASE_CLASSES)[number];

/** RDS's least for gp3. */
export const METADATA_STORAGE_GIB = 20;
/** Storage grows by itself up to this. */
export const METADATA_STORAGE_GIB_MAX = 200;
/** Days for which the database can be restored to any moment. */
export const METADATA_BACKUP_DAYS = 14;
